"""The command-line parser. The flags of a study are generated from `StudyOptions`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, NoReturn

from reaper.config.overrides import setting_names
from reaper.errors import UserError
from reaper.study.options import StudyOptions, flag, flags_for


class Parser(argparse.ArgumentParser):
    """Reports a mistake as a one-line `UserError`."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def build_parser() -> Parser:
    parser = Parser(
        "reaper", description="Continual reinforcement learning: learn one task after another, forget none."
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser, metavar="COMMAND")
    _add_studies(commands)
    _add_reports(commands)
    _add_agents(commands)
    _add_files(commands)
    _add_bench(commands)
    _add_listings(commands)
    return parser


def _add_studies(commands: Any) -> None:
    demo = commands.add_parser("demo", help="learn three small games with and without rehearsal (minutes on a CPU)")
    _add_study_flags(demo, _named("out", "workers", "fraction", "log", "quiet"), out=Path("runs/demo"))

    names = ", ".join(flag(name) for name in setting_names())
    epilog = f"Any setting can be overridden by its name: {names}. `reaper settings` also lists those of methods."
    run = commands.add_parser("run", help="run conditions on a sequence of tasks", epilog=epilog)
    run.add_argument(
        "conditions",
        nargs="+",
        metavar="CONDITION",
        help="see `reaper conditions`; `main` is the paper's nine, and a retention method's name is a condition, too",
    )
    run.add_argument("--dry-run", action="store_true", help="show stages and settings, and run nothing")
    run.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    _add_study_flags(run, flags_for("run"))

    consolidate = commands.add_parser(
        "consolidate", help="teach one network what agents trained elsewhere know, one after another", epilog=epilog
    )
    consolidate.add_argument(
        "conditions", nargs="*", metavar="CONDITION", help="see `reaper conditions` (default: RePR)"
    )
    consolidate.add_argument(
        "--teacher",
        action="append",
        required=True,
        metavar="TASK=SOURCE",
        help="who teaches a task: sb3:FILE.zip, cleanrl:ARCHITECTURE:FILE, a run or pack, pretrained:NAME or "
        "module:function; once per task. A task of --tasks without a teacher is learnt here",
    )
    consolidate.add_argument("--dry-run", action="store_true", help="show stages and settings, and run nothing")
    consolidate.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    _add_study_flags(consolidate, flags_for("consolidate"))

    evaluate = commands.add_parser("evaluate", help="evaluate any policy on every task, as a row of a report")
    evaluate.add_argument(
        "source", metavar="POLICY", help="module:function, sb3:FILE.zip, or another source of `reaper consolidate`"
    )
    evaluate.add_argument("--name", metavar="NAME", help="of its row in reports (default: made from POLICY)")
    _add_study_flags(evaluate, flags_for("evaluate"))

    experiment = commands.add_parser(
        "experiment", help="reproduce one of the paper's tables or figures, training included", epilog=epilog
    )
    experiment.add_argument("name", nargs="?", metavar="NAME", help="the experiment; --list shows their names")
    experiment.add_argument("--list", action="store_true", help="show what each would cost here, and run nothing")
    experiment.add_argument("--dry-run", action="store_true", help="show stages and settings, and run nothing")
    experiment.add_argument("--json", action="store_true", help="with --list or --dry-run: print JSON")
    _add_study_flags(experiment, flags_for("experiment"))


def _add_reports(commands: Any) -> None:
    report = commands.add_parser("report", help="print the score tables, and write a page with figures")
    _add_out(report)
    report.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables as a Markdown file")
    report.add_argument("--no-videos", action="store_true", help="record no videos of the agents")

    results = commands.add_parser("results", help="print every score as tidy rows, for other tools")
    _add_out(results)
    form = results.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true", help="one line per episode; see docs/reference/results-format.md")
    form.add_argument("--json", action="store_true", help="the same rows as one JSON object")

    reproduction = commands.add_parser(
        "reproduction", help="compare results with every table and figure of the paper, and check its claims"
    )
    reproduction.add_argument("data", type=Path, metavar="DATA", help="folder with summaries of results")
    reproduction.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="OUT", help="first add the results of these output folders"
    )
    reproduction.add_argument("--commit", default="", metavar="HASH", help="with --add: what the code was at")
    reproduction.add_argument("--markdown", type=Path, metavar="FILE", help="write the comparison as a Markdown page")

    watch = commands.add_parser("watch", help="show the live state of a run, also of one on another machine")
    _add_out(watch)
    watch.add_argument("--once", action="store_true", help="show it once instead of until the run ends")
    watch.add_argument("--json", action="store_true", help="print JSON, once")


def _add_agents(commands: Any) -> None:
    play = commands.add_parser("play", help="let a trained agent play episodes, and record a video")
    play.add_argument(
        "path", nargs="?", metavar="PATH", help="output folder of a run, one long-term memory, or pretrained:NAME"
    )
    play.add_argument("--pretrained", metavar="NAME", help="an agent that comes with the package (see `reaper zoo`)")
    play.add_argument("--task", required=True, help="which of its tasks")
    _add_memory_choice(play)
    play.add_argument("--episodes", type=int, default=3, help="how many episodes (default: %(default)s)")
    play.add_argument("--video", type=Path, metavar="FILE", help="record the first episode as a .gif or .mp4 file")

    zoo = commands.add_parser("zoo", help="list the trained agents that come with the package")
    zoo.add_argument("name", nargs="?", metavar="NAME", help="show the model card of this agent")
    _add_json(zoo)


def _add_files(commands: Any) -> None:
    export = commands.add_parser(
        "export", help="pack a run or a long-term memory into one file, or an agent for other programs"
    )
    _add_out(export)
    export.add_argument("file", type=Path, metavar="FILE", help="the file or folder to write")
    export.add_argument(
        "--what",
        choices=("run", "weights", "onnx", "torch", "card"),
        default="run",
        help="a pack of the whole run, or of one long-term memory; one agent as an ONNX graph, as a torch module in a "
        "folder, or as a folder for a model hub (default: run)",
    )
    export.add_argument("--half", action="store_true", help="store weights in half precision: half the size")
    export.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    _add_memory_choice(export)

    importing = commands.add_parser("import", help="unpack what `reaper export` packed, after checking all of it")
    importing.add_argument("file", type=Path, metavar="FILE", help="a pack")
    importing.add_argument("out", type=Path, metavar="OUT", help="a new folder, or a run to add the pack's stages to")

    convert = commands.add_parser("convert", help="convert a folder that an earlier version wrote; it is only read")
    convert.add_argument("old", type=Path, metavar="OLD", help="output folder, or folder of a long-term memory")
    convert.add_argument("new", type=Path, metavar="NEW", help="a new folder")

    verify = commands.add_parser("verify", help="check every file of a run, and tell how to repair damage")
    _add_out(verify)
    _add_json(verify)
    verify.add_argument("--set-aside", action="store_true", help="move damaged files to OUT/damaged")


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser("bench", help="measure each part of a run on this machine, and predict its duration")
    _add_study_flags(bench, _named("tasks", "device", "preset"))
    bench.add_argument("--seconds", type=float, default=3.0, help="duration of each measurement (default: %(default)s)")
    bench.add_argument("--repeats", type=int, default=3, help="measurements per median (default: %(default)s)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to a file")

    generators = commands.add_parser(
        "generator-bench", help="measure the generators of finished runs, and whether that predicts what was retained"
    )
    generators.add_argument("outs", type=Path, nargs="+", metavar="OUT", help="output folder of a run; several compare")
    generators.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to a file")


def _add_listings(commands: Any) -> None:
    for name, about in (
        ("conditions", "list every condition and its four axes"),
        ("tasks", "list every task and sequence"),
        ("engines", "list every engine and its options"),
        ("presets", "compare the presets, setting by setting"),
        ("settings", "list every setting, its value in each preset and its meaning"),
        ("equations", "list every equation of the paper and the function that implements it"),
    ):
        _add_json(commands.add_parser(name, help=about))


# -- flags that several commands share


def _named(*names: str) -> list[Field[Any]]:
    return [f for f in fields(StudyOptions) if f.name in names]


def _add_study_flags(parser: Parser, options: Iterable[Field[Any]], **defaults: Any) -> None:
    """Adds a flag per option. One that is on by default becomes `--no-NAME`."""
    for f in options:
        default, about = defaults.get(f.name, f.default), f.metadata["help"]
        if isinstance(default, bool):
            name, action = (f"no_{f.name}", "store_false") if default else (f.name, "store_true")
            parser.add_argument(flag(name), dest=f.name, action=action, help=about)
            continue
        several = isinstance(default, tuple)
        if default not in (None, ()):
            about += f" (default: {' '.join(map(str, default)) if several else default})"
        kind = {"type": f.metadata["type"], "metavar": f.metadata["metavar"], "nargs": "+" if several else None}
        parser.add_argument(flag(f.name), default=default, help=about, **kind)


def _add_out(parser: Parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="output folder of a run, finished or not")


def _add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_memory_choice(parser: Parser) -> None:
    """Chooses one long-term memory of an output folder."""
    parser.add_argument("--condition", help="which condition, if the folder holds several")
    parser.add_argument("--seed", type=int, help="which seed, if the folder holds several")
    parser.add_argument("--sequence", help="which sequence of tasks, if the folder holds several")
    parser.add_argument("--after-task", type=int, metavar="N", help="the agent after its N-th task (default: the last)")


# -- what argparse does not do


def take_dotted(words: Sequence[str], commands: Sequence[str], parser: Parser) -> tuple[list[str], dict[str, str]]:
    """Separates `--part.name value` and `--part.name=value` (settings, and options of an engine) from the other words.
    Only `commands` have such flags. The word after one is always its value, even if it begins with a dash."""
    rest: list[str] = []
    dotted: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if words[0] not in commands or not word.startswith("--") or "." not in name:
            rest.append(word)
            continue
        if not equals:
            if not left:
                parser.error(f"{word} needs a value")
            value = left.pop(0)
        dotted[name] = value
    return rest, dotted


def known_flags(parser: Parser, command: str) -> list[str]:
    """The flags of a command, to suggest the most similar one for a typo."""
    group = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return list(group.choices[command]._option_string_actions)
