"""The command line: `reaper demo | run | report | results | play | export | import | verify | ...`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console

from reaper import commands
from reaper.arguments import Parser, build_parser, options_of
from reaper.errors import ReaperError

INTERRUPTED = 130


def _overrides(extra: Sequence[str], parser: Parser, command: str) -> dict[str, str]:
    """`--part.name value` and `--part.name=value`, left over by the parser."""
    overrides: dict[str, str] = {}
    words = list(extra)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if command != "run" or not word.startswith("--") or "." not in name:
            near = difflib.get_close_matches(word, options_of(parser, command), n=1)
            parser.error(f"unknown argument {word!r}" + (f"; did you mean {near[0]}?" if near else ""))
        if not equals:
            if not words:
                parser.error(f"{word} needs a value")
            value = words.pop(0)
        overrides[name] = value
    return overrides


def _dispatch(words: Sequence[str]) -> int:
    parser = build_parser()
    arguments, extra = parser.parse_known_args(words)
    overrides = _overrides(extra, parser, arguments.command)
    console = Console()
    match arguments.command:
        case "demo":
            options = {"tasks": "arcade-3", "fraction": arguments.fraction, "workers": arguments.workers}
            commands.run(["RePR", "no-reh"], arguments.out, console, device="cpu", **options)
            commands.report(arguments.out, console)
        case "run":
            chosen = ("tasks", "seeds", "fraction", "device", "scale", "workers", "checkpoint_every", "share")
            chosen += ("engine", "address", "store", "gpus_per_stage")
            options = {name: getattr(arguments, name) for name in chosen}
            commands.run(arguments.conditions, arguments.out, console, overrides=overrides, **options)
            commands.report(arguments.out, console)
        case "report":
            commands.report(arguments.out, console, arguments.markdown, not arguments.no_videos)
        case "results":
            commands.results(arguments.out, arguments.json)
        case "play":
            commands.play(arguments, console)
        case "export":
            commands.export(arguments)
        case "import":
            commands.import_(arguments)
        case "verify":
            return commands.verify(arguments)
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


if __name__ == "__main__":
    sys.exit(main())
