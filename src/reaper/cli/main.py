"""The command line: `reaper demo | run | experiment | watch | report | results | play | zoo`, and
`export | import | verify | bench`; `conditions | tasks | equations` say what there is."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console

from reaper.cli import commands
from reaper.cli.parser import Parser, build_parser, options_of
from reaper.errors import ReaperError

INTERRUPTED = 130


def take_overrides(words: Sequence[str], commands: Sequence[str], parser: Parser) -> tuple[list[str], dict[str, str]]:
    """The words without `--part.name value` and `--part.name=value`, which some commands know, and these: a value is
    never taken for a name."""
    rest: list[str] = []
    overrides: dict[str, str] = {}
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
        overrides[name] = value
    return rest, overrides


def _refuse(extra: Sequence[str], parser: Parser, command: str) -> None:
    """Names what the parser did not know, and the nearest that it would have known."""
    for word in extra:
        near = difflib.get_close_matches(word, options_of(parser, command), n=1)
        parser.error(f"unknown argument {word!r}" + (f"; did you mean {near[0]}?" if near else ""))


def _study_options(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = ("tasks", "seeds", "fraction", "device", "scale", "workers", "checkpoint_every")
    chosen += ("engine", "address", "store", "gpus_per_stage")
    return {name: getattr(arguments, name) for name in chosen}


def _attending(arguments: argparse.Namespace) -> dict[str, bool]:
    """Who shares the folder, and who looks on."""
    return {"share": arguments.share, "tensorboard": not arguments.no_tensorboard, "wandb": arguments.wandb}


def _dispatch(words: Sequence[str]) -> int:
    parser = build_parser()
    words, overrides = take_overrides(words, ("run", "experiment"), parser)
    arguments, extra = parser.parse_known_args(words)
    _refuse(extra, parser, arguments.command)
    console = Console()
    match arguments.command:
        case "demo":
            options = {"tasks": "arcade-3", "fraction": arguments.fraction, "workers": arguments.workers}
            commands.run(["RePR", "no-reh"], arguments.out, console, device="cpu", **options)
            commands.report(arguments.out, console)
        case "run":
            origin = {name: getattr(arguments, name) for name in ("continue_from", "from_condition", "from_seed")}
            options = {**_study_options(arguments), **origin, "overrides": overrides}
            commands.run(arguments.conditions, arguments.out, console, _attending(arguments), **options)
            commands.report(arguments.out, console)
        case "watch":
            commands.watch(arguments, console)
        case "experiment":
            options = {**_study_options(arguments), "overrides": overrides}
            commands.experiment(arguments, options, _attending(arguments), console)
        case "report":
            commands.report(arguments.out, console, arguments.markdown, not arguments.no_videos)
        case "results":
            commands.results(arguments.out, arguments.json)
        case "play":
            commands.play(arguments, console)
        case "zoo":
            commands.zoo(arguments.name, arguments.json, console)
        case "export":
            commands.export(arguments)
        case "import":
            commands.import_(arguments)
        case "verify":
            return commands.verify(arguments)
        case "bench":
            commands.bench(arguments, console)
        case "conditions":
            commands.conditions(arguments.json, console)
        case "tasks":
            commands.tasks(arguments.json, console)
        case "equations":
            commands.equations(arguments.json, console)
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
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
