"""`reaper conditions | tasks | engines | presets | settings | equations`: what there is to choose from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]


def conditions(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.study.conditions import CONDITIONS

    rows = [condition.describe() for condition in CONDITIONS.values()]
    columns = ["name", "objective", "retention", "knowledge", "variant", "about"]
    _list(rows, columns, arguments, console)


def tasks(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.tasks.arcade import ARCADE
    from reaper.tasks.sequence import SEQUENCES, TASKS

    rows = [{"name": name, "kind": "sequence", "about": ", ".join(tasks)} for name, tasks in SEQUENCES.items()]
    rows += [{"name": n, "kind": "task", "about": ARCADE[n].about if n in ARCADE else "registered"} for n in TASKS]
    rows += [{"name": "ALE/Breakout-v5, ...", "kind": "any Gymnasium id", "about": "uint8 images, discrete actions"}]
    _list(rows, ["name", "kind", "about"], arguments, console)


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
    rows = [{"setting": f"--{s.name}", "type": s.type, **s.defaults, "about": s.help} for s in found]
    print_rows(rows, ["setting", "type", *presets, "about"], console)


def presets(arguments: argparse.Namespace, console: Console) -> None:
    """The settings in which presets differ, side by side."""
    import reaper.study.conditions  # noqa: F401 - registers all methods, whose hyper-parameters are settings
    from reaper.config.overrides import compare_presets

    found = compare_presets()
    rows = [{"setting": f"--{s.name}", **s.defaults} for s in found]
    _list(rows, ["setting", *found[0].defaults], arguments, console)


def equations(arguments: argparse.Namespace, console: Console) -> None:
    from reaper.equations import EQUATIONS

    rows = [
        {"label": e.label, "function": e.function.__name__, "file": str(e.file), "about": e.summary}
        for e in EQUATIONS.values()
    ]
    _list(rows, ["label", "function", "file", "about"], arguments, console)


def _list(rows: Sequence[Row], columns: Sequence[str], arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print_rows(rows, columns, console)


def print_rows(rows: Sequence[Row], columns: Sequence[str], console: Console) -> None:
    """A table whose last column is wrapped where the terminal is narrow; a file gets long lines."""
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1])
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    wide = console if console.is_terminal else Console(width=200)
    wide.print(table, highlight=False)


def _cell(value: Any) -> str:
    """A registered method is shown as its name and the options that are on."""
    if isinstance(value, dict):
        return " ".join([value["name"], *(key for key, on in value.items() if key != "name" and on)])
    return str(value)
