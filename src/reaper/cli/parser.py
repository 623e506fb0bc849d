"""What can be typed after `reaper`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from reaper.config.presets import PRESETS, setting_names
from reaper.errors import UserError


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
    _add_study(run, "arcade-3")

    run.add_argument(
        "--continue-from",
        metavar="MEMORY",
        help="teach a long-term memory further tasks: pretrained:NAME, a pack of weights, or another output folder",
    )
    run.add_argument("--from-condition", metavar="NAME", help="with --continue-from, which condition of that folder")
    run.add_argument("--from-seed", type=int, metavar="N", help="with --continue-from, which seed of that folder")

    experiment = commands.add_parser(
        "experiment", help="one of the paper's tables or figures, from training to its table", epilog=_settings_help()
    )
    experiment.add_argument("name", nargs="?", metavar="NAME", help="which one; --list names them")
    experiment.add_argument("--list", action="store_true", help="what each would cost here; nothing is run")
    experiment.add_argument("--dry-run", action="store_true", help="show the stages of NAME; nothing is run")
    experiment.add_argument("--json", action="store_true", help="with --list or --dry-run: machine-readable")
    _add_study(experiment, None)

    report = commands.add_parser("report", help="the score table, and a page with curves and pictures")
    report.add_argument("out", type=Path, metavar="OUT", help="output folder of a run")
    report.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables as a Markdown page")
    report.add_argument("--no-videos", action="store_true", help="without films of the agents at play")

    results = commands.add_parser("results", help="every score as tidy rows, for other tools")
    results.add_argument("out", type=Path, metavar="OUT", help="output folder of a run, finished or not")
    form = results.add_mutually_exclusive_group(required=True)
    form.add_argument(
        "--csv", action="store_true", help="a line a game; docs/reference/results-format.md has the columns"
    )
    form.add_argument("--json", action="store_true", help="the same as one JSON object")

    watch = commands.add_parser("watch", help="the live state of a run, also of one that runs on another machine")
    watch.add_argument("out", type=Path, metavar="OUT", help="output folder of a run")
    watch.add_argument("--once", action="store_true", help="show it once, instead of until all is done")
    watch.add_argument("--json", action="store_true", help="machine-readable, once")

    play = commands.add_parser("play", help="let a trained agent play, and film it")
    play.add_argument(
        "path", nargs="?", metavar="PATH", help="output folder of a run, one long-term memory, or pretrained:NAME"
    )
    play.add_argument("--pretrained", metavar="NAME", help="an agent that comes with the package (see `reaper zoo`)")
    play.add_argument("--task", required=True, help="which of its tasks")
    _add_choice(play)
    play.add_argument("--games", type=int, default=3, help="how many whole games (default: %(default)s)")
    play.add_argument("--video", type=Path, metavar="FILE", help="film the first game: a .gif or .mp4 file")

    _add_moving(commands)

    zoo = commands.add_parser("zoo", help="trained agents that come with the package")
    zoo.add_argument("name", nargs="?", metavar="NAME", help="show the card of one of them")
    zoo.add_argument("--json", action="store_true", help="machine-readable")

    bench = commands.add_parser("bench", help="how fast this machine is at each part of a run, and how long one takes")
    bench.add_argument("--tasks", default="arcade-3", help="a sequence or names separated by commas")
    bench.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    bench.add_argument("--scale", help=f"{', '.join(PRESETS)} (default: what fits the tasks)")
    bench.add_argument("--seconds", type=float, default=3.0, help="how long each rate is taken (default: %(default)s)")
    bench.add_argument("--repeats", type=int, default=3, help="how often; medians are shown (default: %(default)s)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")

    for name, about in (
        ("conditions", "every condition and its four axes"),
        ("tasks", "every task and sequence"),
        ("equations", "every equation of the paper and the function that is it"),
    ):
        commands.add_parser(name, help=about).add_argument("--json", action="store_true", help="machine-readable")
    return parser


def _add_study(parser: Parser, tasks: str | None) -> None:
    """What a study is run on and with; `tasks` are the default, None that each experiment has its own."""
    about = "a sequence (see `reaper tasks`) or names separated by commas"
    parser.add_argument("--tasks", default=tasks, help=about if tasks else f"{about} (default: the experiment's own)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="one run for each (default: 0)")
    parser.add_argument(
        "--fraction", type=float, default=1.0, help="share of the training budget, up to 1 (default: 1)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/latest"), help="output folder (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--scale", help=f"{', '.join(PRESETS)} (default: what fits the tasks)")
    parser.add_argument(
        "--workers", type=int, help="stages run side by side (default: one a core on small games, else 1)"
    )
    parser.add_argument(
        "--checkpoint-every",
        default="10m",
        metavar="N",
        help="how much work may be lost when killed: minutes (10m), seconds (30s) or agent steps (50000)",
    )
    parser.add_argument(
        "--share", action="store_true", help="let several processes, also on other machines, work on one --out"
    )
    parser.add_argument("--no-tensorboard", action="store_true", help="write no curves to OUT/tensorboard")
    parser.add_argument("--wandb", action="store_true", help="also send curves, pictures and scores to wandb")
    parser.add_argument("--engine", default="local", help="local, or ray: on a Ray cluster (default: local)")
    parser.add_argument(
        "--address", metavar="ADDR", help="of the Ray cluster: HOST:PORT or auto (default: start one here)"
    )
    parser.add_argument("--store", help="shared: all nodes see --out; fetch: files are sent to them (default: shared)")
    parser.add_argument(
        "--gpus-per-stage", type=float, metavar="N", help="with Ray on GPUs, 0.25 or 1, say (default: 1)"
    )


def options_of(parser: Parser, command: str) -> list[str]:
    """What a command can be told, to name the nearest when something else was typed."""
    group = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return list(group.choices[command]._option_string_actions)


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
