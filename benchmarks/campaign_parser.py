"""The command line of benchmarks/campaign.py."""

from __future__ import annotations

import argparse
from pathlib import Path


def build_parser(description: str) -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="campaign", description=description, formatter_class=formatter)
    commands = parser.add_subparsers(dest="command", required=True)
    names = ("begin", "send", "receive", "plan", "slice", "unpack", "collect", "queue")
    found = {name: commands.add_parser(name) for name in names}
    for name in ("begin", "send", "receive", "plan"):
        found[name].add_argument("home", type=Path)
    for name in ("send", "slice", "unpack", "collect"):
        found[name].add_argument("carry", type=Path)
    for name in ("receive", "slice", "collect"):
        found[name].add_argument("back", type=Path)
    for name in ("slice", "unpack", "collect"):
        help_ = "output folder (default: %(default)s)"
        found[name].add_argument("--work", type=Path, default=Path("runs/slice"), help=help_)
    found["queue"].add_argument("data", type=Path, help="summaries of results and the queue: docs/results/data")
    found["queue"].add_argument("--stores", type=Path, nargs="+", default=[], help="output folders that may have more")
    _add_study(found["begin"])
    _add_limits(found["slice"])
    for name in ("begin", "plan", "slice"):
        _add_rates(found[name])
    return parser


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "settings as for `reaper run`: --gan.steps 1000 ..."
    parser.add_argument("conditions", nargs="+")
    parser.add_argument("--tasks", default="atari-3")
    parser.add_argument("--fraction", type=float, required=True)
    parser.add_argument("--preset", help="the settings to start from (default: the one made for the tasks)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reuse", type=Path, nargs="+", default=[], help="as for `reaper run`")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=560.0, help="length of the slice")
    parser.add_argument("--reserve", type=float, default=40.0, help="seconds for a last checkpoint and packing")
    parser.add_argument(
        "--margin", type=float, default=1.15, help="a stage may take this many times as long as expected"
    )
    parser.add_argument("--persistent", action="store_true", help="--work outlives the slice: also start long stages")
    parser.add_argument("--skip-evaluations", action="store_true", help="leave evaluation stages for home")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--checkpoint-every", default="10m")


def _add_rates(parser: argparse.ArgumentParser) -> None:
    """The expected speed of the machine, until a similar stage has been timed."""
    parser.add_argument("--steps-per-second", type=float, default=9000.0, help="agent steps")
    parser.add_argument("--generator-steps-per-second", type=float, default=450.0)
    parser.add_argument("--evaluation-seconds", type=float, default=6.0, help="per task")
    parser.add_argument("--start-seconds", type=float, default=60.0, help="of a stage before its first step")
