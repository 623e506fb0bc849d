"""Listings as tables that fit the terminal; where there is none, 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

Row = dict[str, Any]
GAP = 2  # between columns


def print_rows(rows: Sequence[Row], columns: Sequence[str], console: Console, *, one_line: bool = False) -> None:
    """A table whose last column is wrapped where it does not fit, or with `one_line` cut off."""
    table = _table()
    for column in columns:
        table.add_column(column, no_wrap=one_line or column != columns[-1])
    for row in rows:
        table.add_row(*(escape(_cell(row[column])) for column in columns))
    console.print(table, highlight=False)


def print_with_text(rows: Sequence[Row], columns: Sequence[str], text: str, console: Console) -> None:
    """Where `text` does not fit in a last column, it is below the row, indented and at the full width."""
    if fit([*columns, text], rows, console.width):
        print_rows(rows, [*columns, text], console)
        return
    widths = _widths(columns, rows)
    for number, row in enumerate(rows):
        table = _table(show_header=number == 0)
        for column, width in zip(columns, widths, strict=True):
            table.add_column(column, no_wrap=True, width=width)
        table.add_row(*(escape(_cell(row[column])) for column in columns))
        console.print(table, highlight=False)
        console.print(Padding(escape(_cell(row[text])), (0, 0, 0, 2 * GAP)), highlight=False)


def fit(columns: Sequence[str], rows: Sequence[Row], width: int) -> bool:
    """Whether every row with these columns fits on one line."""
    return sum(_widths(columns, rows)) + GAP * (len(columns) - 1) <= width


def _table(show_header: bool = True) -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0), show_header=show_header)


def _widths(columns: Sequence[str], rows: Sequence[Row]) -> list[int]:
    return [max([len(column), *(len(_cell(row[column])) for row in rows)]) for column in columns]


def _cell(value: Any) -> str:
    """A registered method is shown as its name and the options that are on."""
    if isinstance(value, dict):
        return " ".join([value["name"], *(key for key, on in value.items() if key != "name" and on)])
    return str(value)
