"""What each command does. Imports are inside: `reaper --help` should not wait for torch."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from reaper.errors import UserError

if TYPE_CHECKING:
    from reaper.study.plan import Plan


def run(
    conditions: Sequence[str],
    out: Path,
    console: Console,
    attending: Mapping[str, bool] | None = None,
    **options: Any,
) -> None:
    from reaper.study.conditions import MAIN
    from reaper.study.plan import plan

    names = [name for given in conditions for name in (MAIN if given == "main" else (given,))]
    _carry_out(plan(list(dict.fromkeys(names)), **options), out, console, attending or {})


def _carry_out(study: Plan, out: Path, console: Console, attending: Mapping[str, bool]) -> None:
    """`attending` says who shares the folder and who looks on: the options of `execute`."""
    from reaper.cli.display import show_progress
    from reaper.study.plan import execute

    for notice in study.notices:
        console.print(f"note: {notice}", highlight=False)
    with show_progress(len(study.stages), Console(stderr=True)) as listen:
        execute(study, out, listen, **attending)


def watch(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.monitoring.watch import watch

    watch(arguments.out, console, once=arguments.once, json_=arguments.json)


def experiment(
    arguments: argparse.Namespace, options: dict[str, Any], attending: Mapping[str, bool], console: Console
) -> None:
    from reaper.cli import dry_run as announcing
    from reaper.study.experiments import find_experiment, plan_experiment

    if arguments.list and (arguments.name or arguments.dry_run):
        raise UserError("--list is about all experiments: leave out NAME and --dry-run")
    if arguments.json and not (arguments.list or arguments.dry_run):
        raise UserError("--json goes with --list or --dry-run")
    if arguments.list:
        announcing.costs(arguments.out, options, arguments.json, console)
        return
    if arguments.name is None:
        raise UserError("name an experiment; `reaper experiment --list` lists them")
    study = plan_experiment(find_experiment(arguments.name).name, **options)
    if arguments.dry_run:
        announcing.graph(study, arguments.out, arguments.json, console)
        return
    _carry_out(study, arguments.out, console, attending)
    report(arguments.out, console, experiment=arguments.name)


def report(
    out: Path, console: Console, markdown: Path | None = None, videos: bool = True, experiment: str | None = None
) -> None:
    """All tables in the terminal, or those of one experiment; and the page."""
    from reaper.report import experiment_sections
    from reaper.report.page import write_report
    from reaper.report.table_formats import for_markdown, for_terminal
    from reaper.results.runs import read_results
    from reaper.storage.files import atomic_write
    from reaper.storage.store import Store

    store = Store.open(out)
    tables = console if console.is_terminal else Console(width=200)  # in a file no table is cut
    for table in () if experiment else for_terminal(read_results(store)):
        tables.print(table)
    sections = experiment_sections.read_experiment_sections(store)
    for table in experiment_sections.for_terminal(s for s in sections if experiment in (None, s.experiment.name)):
        tables.print(table)
    commands = list(dict.fromkeys(run.get("command", "") for run in store.runs()))
    page = write_report(store, commands, videos)
    if markdown:
        atomic_write(markdown, (for_markdown(store, commands) + experiment_sections.for_markdown(sections)).encode())
        console.print(f"tables: {markdown}", highlight=False)
    console.print(f"page: {page}", highlight=False)


def results(out: Path, as_json: bool) -> None:
    from reaper.results import tidy
    from reaper.results.runs import read_results
    from reaper.storage.store import Store

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
    if (arguments.path is None) == (arguments.pretrained is None):
        raise UserError("say what is to play: the PATH of a run or memory, or --pretrained NAME (see `reaper zoo`)")
    path = arguments.path or f"pretrained:{arguments.pretrained}"
    agent = load(path, arguments.condition, arguments.seed, arguments.sequence, arguments.after_task)
    task = find_task(match_task(agent.tasks, arguments.task))
    for number in range(arguments.games):
        filmed = bool(arguments.video) and number == 0
        game = agent.play(task.name, seed=number, for_people=filmed)
        if filmed:
            score = write_video(arguments.video, game, task.title)
            console.print(f"video: {arguments.video}", highlight=False)
        else:
            *_, (_, score) = game
        console.print(f"{task.title}, game {number + 1}: {score:g}", highlight=False)


def zoo(name: str | None, as_json: bool, console: Console) -> None:
    from reaper.zoo import entries, pretrained

    if name and not as_json:
        print(pretrained(name).card, end="")
        return
    chosen = [pretrained(name)] if name else list(entries().values())
    rows = [
        {
            "name": entry.name,
            "condition": entry.facts["condition"],
            "MiB": round(entry.facts["bytes"] / 2**20, 2),
            "mean scores": ", ".join(
                f"{title} {entry.facts['scores'][task]['mean']:,.1f}"
                for title, task in zip(entry.facts["titles"], entry.facts["tasks"], strict=True)
            ),
        }
        for entry in chosen
    ]
    if as_json:
        print(json.dumps([{"name": entry.name, **entry.facts} for entry in chosen], indent=1))
        return
    _list(rows, as_json, console, ["name", "condition", "MiB", "mean scores"])
    console.print("`reaper zoo NAME` shows a card, `reaper play --pretrained NAME --task TASK` lets it play")


def export(arguments: argparse.Namespace) -> None:
    from reaper.storage.pack import export_run, export_weights

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
    from reaper.storage.pack import import_pack

    print(f"{arguments.out}: {import_pack(arguments.file, arguments.out)}")


def verify(arguments: argparse.Namespace) -> int:
    from reaper.storage.verify import set_aside, verify

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


def bench(arguments: argparse.Namespace, console: Console) -> None:
    import torch

    from reaper.bench.benchmark import Bench
    from reaper.engines.local import keep_freed_memory
    from reaper.storage.files import atomic_write
    from reaper.study.plan import find_device, find_settings
    from reaper.tasks.sequence import SEQUENCES, find_sequence

    if arguments.seconds <= 0 or arguments.repeats < 1:
        raise UserError("--seconds must be above 0 and --repeats at least 1")
    sequence = find_sequence(arguments.tasks)
    scale, settings = find_settings(sequence, arguments.scale, 1.0, {})
    device = torch.device(find_device(arguments.device))
    if device.type == "cuda" or scale == "arcade":
        torch.set_num_threads(1)
    keep_freed_memory()
    progress = Console(stderr=True)
    measured = Bench(
        sequence.tasks, sequence.num_actions, settings, device, arguments.seconds, arguments.repeats, progress.print
    )
    measured.run()
    whole = {n: t for n, t in SEQUENCES.items() if set(t) <= set(sequence.names)} or {sequence.name: sequence.names}
    hours = {name: measured.predicted(tasks) for name, tasks in whole.items()}
    table = Table("what", "task", "rate", "of bare emulation", box=None, header_style="bold")
    for figure in measured.figures:
        share = "" if figure.share is None else f"{figure.share:.2f}"
        share += "" if figure.of == "bare emulation" or not share else f" of {figure.of}"
        table.add_row(figure.what, figure.task, f"{figure.rate:,.0f} {figure.unit}/s", share)
    console.print(table, highlight=False)
    foreseen = Table(f"RePR, scale {scale}", *hours, box=None, header_style="bold")
    for what in next(iter(hours.values())):
        foreseen.add_row(what, *(f"{parts[what]:.3f} h" for parts in hours.values()))
    console.print(foreseen, highlight=False)
    if arguments.json:
        figures = [figure.describe() for figure in measured.figures]
        found = {"machine": measured.machine(), "figures": figures, "set_up": measured.set_up, "hours": hours}
        atomic_write(arguments.json, json.dumps(found, indent=1).encode())


def conditions(as_json: bool, console: Console) -> None:
    from reaper.study.conditions import CONDITIONS

    rows = [condition.describe() for condition in CONDITIONS.values()]
    _list(rows, as_json, console, ["name", "objective", "retention", "knowledge", "preset_variant", "about"])


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
