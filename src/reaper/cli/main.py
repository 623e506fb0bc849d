"""The `reaper` command: parses the command line, calls the command and turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console

from reaper.cli.parser import Parser, build_parser, known_flags, take_dotted
from reaper.errors import DISK_ERRORS, PATH_ERRORS, EnvironmentFailed, ReaperError, StorageFailed, UserError, one_line

INTERRUPTED = 130

# Command -> its module in this package; the function has the command's name. A module is imported when its command is
# called, so that `reaper --help` does not import torch.
COMMANDS = {
    "demo": "run",
    "run": "run",
    "consolidate": "run",
    "evaluate": "run",
    "experiment": "run",
    "watch": "reports",
    "report": "reports",
    "results": "reports",
    "reproduction": "reproduction",
    "play": "agents",
    "zoo": "agents",
    "export": "files",
    "import": "files",
    "verify": "files",
    "convert": "files",
    "bench": "bench",
    "generator-bench": "generator_bench",
    "conditions": "listings",
    "tasks": "listings",
    "engines": "listings",
    "presets": "listings",
    "settings": "listings",
    "equations": "listings",
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command. An error that a user can cause is one line on standard error, with its own exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold bytes that no text encoding has
    try:
        return _dispatch(sys.argv[1:] if words is None else words)
    except ReaperError as error:
        return _failed(error)
    except KeyboardInterrupt:
        print("reaper: stopped at once; the same command resumes from the last checkpoint", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None or error.errno not in (*PATH_ERRORS, *DISK_ERRORS):
            raise
        kind = StorageFailed if error.errno in DISK_ERRORS else UserError
        return _failed(kind(f"{error.filename}: {error.strerror}"))
    except MemoryError:
        return _failed(ReaperError("out of memory; use fewer --workers or smaller settings"))


def _failed(error: ReaperError) -> int:
    with suppress(OSError):  # standard error may be on the disk that is full; the exit code still tells
        if isinstance(error, EnvironmentFailed) and error.details:
            print(error.details.rstrip(), file=sys.stderr)
        print(f"reaper: {one_line(error)}", file=sys.stderr)
    return error.exit_code


def _dispatch(words: Sequence[str]) -> int:
    parser = build_parser()
    if broken := next((word for word in words if "\0" in word), None):
        parser.error(f"{broken!r} holds a null byte")
    if empty := next((word for word in words if word.startswith("-") and word.endswith("=--")), None):
        parser.error(f"{empty!r} needs a value")  # argparse would take an empty list for it
    words, dotted = take_dotted(words, ("run", "consolidate", "evaluate", "experiment"), parser)
    arguments, extra = parser.parse_known_args(words)
    if extra:
        _refuse(extra[0], parser, arguments.command)
    arguments.dotted = dotted
    module = importlib.import_module(f"reaper.cli.{COMMANDS[arguments.command]}")
    name = "import_" if arguments.command == "import" else arguments.command.replace("-", "_")
    return getattr(module, name)(arguments, Console()) or 0


def _refuse(word: str, parser: Parser, command: str) -> None:
    """Raises an error that names an unknown argument and the most similar known one."""
    near = difflib.get_close_matches(word, known_flags(parser, command), n=1)
    parser.error(f"unknown argument {word!r}" + (f"; did you mean {near[0]}?" if near else ""))


if __name__ == "__main__":
    sys.exit(main())
