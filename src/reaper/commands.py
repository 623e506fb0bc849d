"""What each command does. Imports are inside: `reaper --help` should not wait for torch."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reaper.errors import UserError


def run(conditions: Sequence[str], out: Path, console: Console, share: bool = False, **options: Any) -> None:
    from reaper.conditions import MAIN
    from reaper.display import showing
    from reaper.study import carry_out, plan

    names = [name for given in conditions for name in (MAIN if given == "main" else (given,))]
    study = plan(list(dict.fromkeys(names)), **options)
    for notice in study.notices:
        console.print(f"note: {notice}", highlight=False)
    with showing(len(study.stages), Console(stderr=True)) as listen:
        carry_out(study, out, listen, share)


def report(out: Path, console: Console, markdown: Path | None = None, videos: bool = True) -> None:
    from reaper.files import write_whole
    from reaper.report.page import write_report
    from reaper.report.tables import for_markdown, for_terminal
    from reaper.results import read_results
    from reaper.store import Store

    store = Store.open(out)
    for table in for_terminal(read_results(store)):
        console.print(table)
    commands = list(dict.fromkeys(run.get("command", "") for run in store.runs()))
    page = write_report(store, commands, videos)
    if markdown:
        write_whole(markdown, for_markdown(store, commands).encode())
        console.print(f"tables: {markdown}", highlight=False)
    console.print(f"page: {page}", highlight=False)


def results(out: Path, as_json: bool) -> None:
    from reaper import tidy
    from reaper.results import read_results
    from reaper.store import Store

    store = Store.open(out)
    write = tidy.as_json if as_json else tidy.as_csv
    text = write(read_results(store), store.common["fraction"])
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def play(arguments: argparse.Namespace, console: Console) -> None:
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


def export(arguments: argparse.Namespace) -> None:
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


def import_(arguments: argparse.Namespace) -> None:
    from reaper.pack import import_pack

    print(f"{arguments.out}: {import_pack(arguments.file, arguments.out)}")


def verify(arguments: argparse.Namespace) -> int:
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


def conditions(as_json: bool, console: Console) -> None:
    from reaper.conditions import CONDITIONS

    rows = [condition.describe() for condition in CONDITIONS.values()]
    _list(rows, as_json, console, ["name", "teaching", "retention", "knowledge", "scale", "about"])


def tasks(as_json: bool, console: Console) -> None:
    from reaper.tasks.arcade import ARCADE
    from reaper.tasks.sequence import SEQUENCES, TASKS

    sequences = [{"name": name, "kind": "sequence", "about": ", ".join(tasks)} for name, tasks in SEQUENCES.items()]
    tasks = [{"name": n, "kind": "task", "about": ARCADE[n].about if n in ARCADE else "registered"} for n in TASKS]
    others = [{"name": "ALE/Breakout-v5, ...", "kind": "any Gymnasium id", "about": "uint8 images, discrete actions"}]
    _list([*sequences, *tasks, *others], as_json, console, ["name", "kind", "about"])


def equations(as_json: bool, console: Console) -> None:
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
