"""The command line: `reaper demo | run | report | play | export | import | verify | conditions | tasks | equations`."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from reaper.errors import ReaperError, UserError
from reaper.scales import SCALES, setting_names

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def build_parser() -> Parser:
    parser = Parser("reaper", description="One agent learns one task after another and forgets none of them.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser, metavar="COMMAND")

    demo = commands.add_parser("demo", help="three small games: forgetting, and then not (a few minutes, CPU)")
    demo.add_argument("--out", type=Path, default=Path("runs/demo"), help="output folder (default: %(default)s)")
    demo.add_argument("--workers", type=int, help="stages run side by side (default: one a core)")
    demo.add_argument("--fraction", type=float, default=1.0, help="share of the training budget (default: 1)")

    run = commands.add_parser("run", help="run conditions on a sequence of tasks", epilog=_settings_help())
    run.add_argument(
        "conditions", nargs="+", metavar="CONDITION", help="see `reaper conditions`; `main`: the paper's nine"
    )
    run.add_argument("--tasks", default="arcade-3", help="a sequence (see `reaper tasks`) or names separated by commas")
    run.add_argument("--seeds", type=int, nargs="+", default=[0], help="one run for each (default: 0)")
    run.add_argument("--fraction", type=float, default=1.0, help="share of the training budget, up to 1 (default: 1)")
    run.add_argument("--out", type=Path, default=Path("runs/latest"), help="output folder (default: %(default)s)")
    run.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    run.add_argument("--scale", help=f"{', '.join(SCALES)} (default: what fits the tasks)")
    run.add_argument("--workers", type=int, help="stages run side by side (default: one a core on small games, else 1)")

    run.add_argument(
        "--checkpoint-every",
        default="10m",
        metavar="N",
        help="how much work may be lost when killed: minutes (10m), seconds (30s) or observed frames (50000)",
    )
    run.add_argument(
        "--share", action="store_true", help="let several processes, also on other machines, work on one --out"
    )
    run.add_argument("--engine", default="local", help="local, or ray: on a Ray cluster (default: local)")
    run.add_argument(
        "--address", metavar="ADDR", help="of the Ray cluster: HOST:PORT or auto (default: start one here)"
    )
    run.add_argument("--store", help="shared: all nodes see --out; fetch: files are sent to them (default: shared)")
    run.add_argument("--gpus-per-stage", type=float, metavar="N", help="with Ray on GPUs, 0.25 or 1, say (default: 1)")

    report = commands.add_parser("report", help="the score table, and a page with curves and pictures")
    report.add_argument("out", type=Path, metavar="OUT", help="output folder of a run")
    report.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables as a Markdown page")

    play = commands.add_parser("play", help="let a trained agent play, and film it")
    play.add_argument("path", type=Path, metavar="PATH", help="output folder of a run, or one long-term memory")
    play.add_argument("--task", required=True, help="which of its tasks")
    _add_choice(play)
    play.add_argument("--games", type=int, default=3, help="how many whole games (default: %(default)s)")
    play.add_argument("--video", type=Path, metavar="FILE", help="film the first game: a .gif or .mp4 file")

    _add_moving(commands)

    for name, about in (
        ("conditions", "every condition and its four axes"),
        ("tasks", "every task and sequence"),
        ("equations", "every equation of the paper and the function that is it"),
    ):
        commands.add_parser(name, help=about).add_argument("--json", action="store_true", help="machine-readable")
    return parser


def _add_choice(parser: Parser) -> None:
    """Which long-term memory of an output folder is meant."""
    parser.add_argument("--condition", help="which condition, where the folder holds several")
    parser.add_argument("--seed", type=int, help="which seed, where the folder holds several")
    parser.add_argument("--sequence", help="which sequence of tasks, where the folder holds several")
    parser.add_argument("--after-task", type=int, metavar="N", help="the agent after its N-th task instead of the last")


def _add_moving(commands: Any) -> None:
    export = commands.add_parser("export", help="pack a run, or one long-term memory of it, into one file")
    export.add_argument("out", type=Path, metavar="OUT", help="output folder of a run, finished or not")
    export.add_argument("file", type=Path, metavar="FILE", help="the pack to write")
    export.add_argument("--what", choices=("run", "weights"), default="run", help="all of it, or one long-term memory")
    export.add_argument("--half", action="store_true", help="weights in half precision: half the size")
    export.add_argument("--overwrite", action="store_true", help="replace FILE if it is there")
    _add_choice(export)

    importing = commands.add_parser("import", help="unpack what `reaper export` packed; all of it is checked first")
    importing.add_argument("file", type=Path, metavar="FILE", help="a pack")
    importing.add_argument("out", type=Path, metavar="OUT", help="a new folder, or a run to add the pack's stages to")

    verify = commands.add_parser("verify", help="check every file of a run, and say how damage is made good")
    verify.add_argument("out", type=Path, metavar="OUT", help="output folder of a run")
    verify.add_argument("--json", action="store_true", help="machine-readable")
    verify.add_argument("--set-aside", action="store_true", help="move what is damaged to OUT/damaged")


def _settings_help() -> str:
    return "Any setting can be overridden by its name: " + ", ".join(f"--{name}" for name in setting_names())


def _overrides(extra: Sequence[str], parser: Parser, command: str) -> dict[str, str]:
    """`--part.name value` and `--part.name=value`, left over by the parser."""
    overrides: dict[str, str] = {}
    words = list(extra)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if command != "run" or not word.startswith("--") or "." not in name:
            known = [
                "--tasks",
                "--seeds",
                "--fraction",
                "--out",
                "--device",
                "--scale",
                "--workers",
                "--checkpoint-every",
                "--engine",
                "--address",
                "--store",
                "--gpus-per-stage",
            ]
            near = difflib.get_close_matches(word, known if command == "run" else [], n=1)
            parser.error(f"unknown argument {word!r}" + (f"; did you mean {near[0]}?" if near else ""))
        if not equals:
            if not words:
                parser.error(f"{word} needs a value")
            value = words.pop(0)
        overrides[name] = value
    return overrides


# -- commands


def _run(conditions: Sequence[str], out: Path, console: Console, share: bool = False, **options: Any) -> None:
    from reaper.conditions import MAIN
    from reaper.display import showing
    from reaper.study import carry_out, plan

    names = [name for given in conditions for name in (MAIN if given == "main" else (given,))]
    study = plan(list(dict.fromkeys(names)), **options)
    for notice in study.notices:
        console.print(f"note: {notice}", highlight=False)
    with showing(len(study.stages), Console(stderr=True)) as listen:
        carry_out(study, out, listen, share)


def _report(out: Path, console: Console, markdown: Path | None = None) -> None:
    from reaper.files import write_whole
    from reaper.report.page import write_report
    from reaper.report.tables import for_markdown, for_terminal
    from reaper.results import read_results
    from reaper.store import Store

    store = Store.open(out)
    for table in for_terminal(read_results(store)):
        console.print(table)
    commands = list(dict.fromkeys(run.get("command", "") for run in store.runs()))
    page = write_report(store, commands)
    if markdown:
        write_whole(markdown, for_markdown(store, commands).encode())
        console.print(f"tables: {markdown}", highlight=False)
    console.print(f"page: {page}", highlight=False)


def _play(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.agent import load
    from reaper.report.videos import write_video
    from reaper.tasks.sequence import find_task, match_task

    if arguments.games < 1:
        raise UserError(f"--games must be at least 1, not {arguments.games}")
    agent = load(arguments.path, arguments.condition, arguments.seed, arguments.sequence, arguments.after_task)
    task = find_task(match_task(agent.tasks, arguments.task))
    for number in range(arguments.games):
        game = agent.play(task.name, seed=number)
        if arguments.video and number == 0:
            score = write_video(arguments.video, game, task.title)
            console.print(f"video: {arguments.video}", highlight=False)
        else:
            *_, (_, score) = game
        console.print(f"{task.title}, game {number + 1}: {score:g}", highlight=False)


def _export(arguments: argparse.Namespace) -> None:
    from reaper.pack import export_run, export_weights

    wanted = {name: getattr(arguments, name) for name in ("condition", "seed", "sequence")}
    chosen = [name for name, value in {**wanted, "after-task": arguments.after_task}.items() if value is not None]
    if arguments.what == "weights":
        words = (arguments.out, arguments.file, wanted, arguments.after_task, arguments.half, arguments.overwrite)
        about = export_weights(*words)
    elif arguments.half or chosen:
        raise UserError(f"--{'half' if arguments.half else chosen[0]} goes with --what weights")
    else:
        about = export_run(arguments.out, arguments.file, arguments.overwrite)
    print(f"{arguments.file}: {about}, {arguments.file.stat().st_size:,} bytes")


def _import(arguments: argparse.Namespace) -> None:
    from reaper.pack import import_pack

    print(f"{arguments.out}: {import_pack(arguments.file, arguments.out)}")


def _verify(arguments: argparse.Namespace) -> int:
    from reaper.verify import set_aside, verify

    problems = verify(arguments.out)
    moved = set_aside(arguments.out, problems) if arguments.set_aside else []
    damaged = sum(problem.damaged for problem in problems)
    if arguments.json:
        rows = [{**vars(problem), "path": str(problem.path)} for problem in problems]
        print(json.dumps({"problems": rows, "set_aside": [str(path) for path in moved]}, indent=1))
        return min(damaged, 1)
    for line in (*map(str, problems), *(f"set aside: {path}" for path in moved)):
        print(line)
    print(f"{arguments.out}: {f'{damaged} damaged' if damaged else 'whole'}")
    return min(damaged, 1)


def _conditions(as_json: bool, console: Console) -> None:
    from reaper.conditions import CONDITIONS

    rows = [condition.describe() for condition in CONDITIONS.values()]
    _list(rows, as_json, console, ["name", "teaching", "retention", "knowledge", "scale", "about"])


def _tasks(as_json: bool, console: Console) -> None:
    from reaper.tasks.arcade import ARCADE
    from reaper.tasks.sequence import SEQUENCES, TASKS

    sequences = [{"name": name, "kind": "sequence", "about": ", ".join(tasks)} for name, tasks in SEQUENCES.items()]
    tasks = [{"name": n, "kind": "task", "about": ARCADE[n].about if n in ARCADE else "registered"} for n in TASKS]
    others = [{"name": "ALE/Breakout-v5, ...", "kind": "any Gymnasium id", "about": "uint8 images, discrete actions"}]
    _list([*sequences, *tasks, *others], as_json, console, ["name", "kind", "about"])


def _equations(as_json: bool, console: Console) -> None:
    from reaper.equations import EQUATIONS

    rows = [
        {"label": e.label, "function": e.function.__name__, "file": str(e.file), "about": e.summary}
        for e in EQUATIONS.values()
    ]
    _list(rows, as_json, console, ["label", "function", "file", "about"])


def _list(rows: list[dict[str, Any]], as_json: bool, console: Console, columns: list[str]) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        table.add_row(*(_plain(row[column]) for column in columns))
    console.print(table, highlight=False)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join([value["name"], *(key for key, on in value.items() if key != "name" and on)])
    return str(value)


def _dispatch(words: Sequence[str]) -> int:
    parser = build_parser()
    arguments, extra = parser.parse_known_args(words)
    overrides = _overrides(extra, parser, arguments.command)
    console = Console()
    match arguments.command:
        case "demo":
            options = {"tasks": "arcade-3", "fraction": arguments.fraction, "workers": arguments.workers}
            _run(["RePR", "no-reh"], arguments.out, console, device="cpu", **options)
            _report(arguments.out, console)
        case "run":
            chosen = ("tasks", "seeds", "fraction", "device", "scale", "workers", "checkpoint_every", "share")
            chosen += ("engine", "address", "store", "gpus_per_stage")
            options = {name: getattr(arguments, name) for name in chosen}
            _run(arguments.conditions, arguments.out, console, overrides=overrides, **options)
            _report(arguments.out, console)
        case "report":
            _report(arguments.out, console, arguments.markdown)
        case "play":
            _play(arguments, console)
        case "export":
            _export(arguments)
        case "import":
            _import(arguments)
        case "verify":
            return _verify(arguments)
        case "conditions":
            _conditions(arguments.json, console)
        case "tasks":
            _tasks(arguments.json, console)
        case "equations":
            _equations(arguments.json, console)
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command; what a user can cause is one line on standard error and an exit code of its own (errors.py)."""
    try:
        return _dispatch(sys.argv[1:] if words is None else words)
    except ReaperError as error:
        with suppress(OSError):  # a full disk may hold the log as well; the exit code still tells
            print(f"reaper: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("reaper: stopped at once; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
