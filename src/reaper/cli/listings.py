"""`reaper conditions | tasks | engines | presets | settings | equations`: what there is to choose from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from rich.console import Console

from reaper.cli.tables import Row, fit, print_rows, print_with_text

LONGEST_TITLES = 57  # characters, which fit into 80 columns with the name and the kind


def conditions(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.study.conditions import CONDITIONS

    rows = [condition.describe() for condition in CONDITIONS.values()]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    columns = ["name", "objective", "retention", "knowledge", "variant", "about"]
    axes = fit(columns, rows, console.width)
    print_rows(rows, columns if axes else ["name", "about"], console, one_line=True)
    if not axes:
        console.print("\n--json, or a wider terminal, also shows the axes of each condition", highlight=False)


def tasks(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.tasks.sequence import SEQUENCES, TASKS
    from reaper.tasks.task import Task

    rows = [{"name": name, "kind": "sequence", "about": ", ".join(tasks)} for name, tasks in SEQUENCES.items()]
    described = {name: task.about if isinstance(task, Task) else "" for name, task in TASKS.items()}
    rows += [{"name": name, "kind": "task", "about": about or "registered"} for name, about in described.items()]
    if arguments.json:
        about = "uint8 images or vectors, discrete actions"
        rows += [{"name": "ALE/Breakout-v5, ...", "kind": "any Gymnasium id", "about": about}]
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        row["about"] = _short(row["about"]) if row["kind"] == "task" else _titles(row["name"], SEQUENCES)
    print_rows(rows, ["name", "kind", "about"], console, one_line=True)
    console.print(
        "\nand any Gymnasium id with images or vectors and discrete actions: ALE/Breakout-v5", highlight=False
    )


def _titles(name: str, sequences: Mapping[str, Sequence[str]]) -> str:
    """The titles of its tasks; a long sequence starts with the name of the one that it continues."""
    from reaper.tasks.titles import short_title

    tasks = sequences[name]
    whole = ", ".join(map(short_title, tasks))
    continued = [other for other, names in sequences.items() if other != name and tasks[: len(names)] == names]
    if len(whole) <= LONGEST_TITLES or not continued:
        return whole
    longest = max(continued, key=lambda other: len(sequences[other]))
    return ", ".join([longest, *map(short_title, tasks[len(sequences[longest]) :])])


def _short(about: str) -> str:
    """What to do, without the rewards."""
    return about.partition(":")[0]


def engines(arguments: argparse.Namespace, console: Console) -> None:
    """Every engine, then its options, as they are typed."""
    from reaper.config.fields import info_of
    from reaper.engines import ENGINES

    rows: list[Row] = []
    for name, engine in ENGINES.items():
        rows.append({"name": f"--engine {name}", "default": "", "about": (engine.__doc__ or "").split("\n")[0]})
        for f in fields(engine):
            option = f"--{name}.{f.name}".replace("_", "-")
            rows.append({"name": option, "default": str(f.default), "about": info_of(f).help})
    _list(rows, ["name", "default", "about"], arguments, console)


def settings(arguments: argparse.Namespace, console: Console) -> None:
    """Every setting with its value in each preset; a setting of a method belongs to its retention or generator."""
    import reaper.study.conditions  # noqa: F401 - registers all methods, whose hyper-parameters are settings
    from reaper.config.overrides import describe_settings

    found = describe_settings()
    if arguments.json:
        print(json.dumps([asdict(setting) for setting in found], indent=1))
        return
    presets = list(found[0].defaults)
    rows: list[Row] = [{"setting": f"--{s.name}", "type": s.type, **s.defaults, "about": s.help} for s in found]
    columns = ["setting", "type", *presets]
    if not fit(columns, rows, console.width):
        rows = [
            {**row, "about": f"{s.help}. {_presets_by_value(s.defaults)}"} for row, s in zip(rows, found, strict=True)
        ]
        columns = columns[:2]
    print_with_text(rows, columns, "about", console)


def presets(arguments: argparse.Namespace, console: Console) -> None:
    """The settings in which presets differ: side by side, or where that does not fit, value by value."""
    import reaper.study.conditions  # noqa: F401 - registers all methods, whose hyper-parameters are settings
    from reaper.config.overrides import compare_presets

    found = compare_presets()
    rows = [{"setting": f"--{s.name}", **s.defaults} for s in found]
    columns = ["setting", *found[0].defaults]
    if arguments.json or fit(columns, rows, console.width):
        _list(rows, columns, arguments, console)
        return
    by_value = [{"setting": f"--{s.name}", "values": _presets_by_value(s.defaults)} for s in found]
    print_with_text(by_value, ["setting"], "values", console)


def _presets_by_value(defaults: Mapping[str, Any]) -> str:
    """`84: paper, modern; 16: arcade`."""
    names: dict[str, list[str]] = {}
    for preset, value in defaults.items():
        names.setdefault(f"{value:,}" if type(value) is int else str(value), []).append(preset)
    if len(names) == 1:
        return f"{next(iter(names)) or 'empty'} in all presets"
    return "; ".join(f"{value}: {', '.join(presets)}" for value, presets in names.items())


def equations(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.equations import EQUATIONS

    rows = [
        {"label": e.label, "function": e.function.__name__, "file": str(e.file), "about": e.summary}
        for e in EQUATIONS.values()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        row["about"] = row["about"].removeprefix(f"{row['label']}: ")
    print_with_text(rows, ["label", "function", "file"], "about", console)


def _list(rows: Sequence[Row], columns: Sequence[str], arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print_rows(rows, columns, console)
