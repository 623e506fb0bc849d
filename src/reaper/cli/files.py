"""`reaper export`, `import`, `verify` and `convert`: the files of a run."""

from __future__ import annotations

import argparse
import json

from rich.console import Console

from reaper.errors import UserError
from reaper.learning.found_memory import check_memory
from reaper.storage.convert import convert as convert_folder
from reaper.storage.find import RunChoice
from reaper.storage.pack import export_run, export_weights, import_pack
from reaper.storage.verify import set_aside
from reaper.storage.verify import verify as find_problems


def export(arguments: argparse.Namespace, console: Console) -> None:
    """Packs a run, or one long-term memory of it, into one file; or writes one agent for other programs."""
    choice = RunChoice(arguments.condition, arguments.seed, arguments.sequence)
    given = {**vars(choice), "after-task": arguments.after_task}
    chosen = [name for name, value in given.items() if value is not None]
    if arguments.what in ("onnx", "torch", "card"):
        from reaper.cli.exporting import export_agent

        if arguments.half:
            raise UserError("--half goes with --what weights")
        print(f"{arguments.file}: {export_agent(arguments, choice)}")
        return
    if arguments.what == "weights":
        about = export_weights(
            arguments.out,
            arguments.file,
            choice,
            after_task=arguments.after_task,
            half=arguments.half,
            overwrite=arguments.overwrite,
        )
    elif arguments.half or chosen:
        raise UserError(f"--{'half' if arguments.half else chosen[0]} goes with --what weights")
    else:
        about = export_run(arguments.out, arguments.file, arguments.overwrite)
    print(f"{arguments.file}: {about}, {arguments.file.stat().st_size:,} bytes")


def import_(arguments: argparse.Namespace, console: Console) -> None:
    """Unpacks what `export` packed."""
    summary = import_pack(arguments.file, arguments.out, check_memory)
    print(f"{arguments.out}: {summary}")


def convert(arguments: argparse.Namespace, console: Console) -> None:
    """Converts a folder that an earlier version wrote."""
    print(f"{arguments.new}: {convert_folder(arguments.old, arguments.new)}")


def verify(arguments: argparse.Namespace, console: Console) -> int:
    """Checks every file of a run; the exit code is 1 if any is damaged."""
    problems = find_problems(arguments.out)
    moved = set_aside(arguments.out, problems) if arguments.set_aside else []
    damaged = sum(problem.damaged for problem in problems)
    if arguments.json:
        rows = [{**vars(problem), "path": str(problem.path)} for problem in problems]
        print(json.dumps({"problems": rows, "set_aside": [str(path) for path in moved]}, indent=1))
        return min(damaged, 1)
    for line in (*map(str, problems), *(f"set aside: {path}" for path in moved)):
        print(line)
    print(f"{arguments.out}: {f'{damaged} damaged' if damaged else 'no damage'}")
    return min(damaged, 1)
