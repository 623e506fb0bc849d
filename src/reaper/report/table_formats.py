"""One text table as a terminal table, HTML, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from html import escape

from rich.box import Box
from rich.markup import escape as escape_markup
from rich.table import Table

from reaper.report.layout import prose
from reaper.report.text_table import UNKNOWN, TextTable

# -- terminal

TERMINAL_WIDTH = 80
HEAD_RULE = Box("\n".join(["    ", "    ", " ── ", "    ", "    ", "    ", "    ", "    "]) + "\n")  # below the header
LONGEST_NAME, LONGEST_CELL, LONGEST_WORD = 24, 30, 16  # of a row's name, a cell, a word of a header; longer ones wrap
GAP = 2  # between columns: a space, and the divider of the box


def _column_widths(table: TextTable, width: int) -> list[int]:
    """Headers wrap between words, and cells only where they are long."""

    def needed(place: int) -> int:
        words = [min(len(word), LONGEST_WORD) for word in table.header[place].split()]
        return max([*words, *(len(row[place]) for row in table.rows)], default=0)

    first = min(needed(0), LONGEST_NAME)
    room = width - first - GAP  # for a column that has a table to itself
    return [first, *(min(needed(place), LONGEST_CELL, room) for place in range(1, len(table.header)))]


def terminal_tables(table: TextTable, width: int = TERMINAL_WIDTH) -> list[Table]:
    """The columns in as many tables as fit side by side, each with the row names. Titles and notes are printed as text:
    a table's own would be as narrow as the table."""
    widths = _column_widths(table, width)
    chunks: list[list[int]] = [[]]
    for place in range(1, len(table.header)):
        if chunks[-1] and sum(widths[p] + GAP for p in (0, *chunks[-1], place)) - GAP > width:
            chunks.append([])
        chunks[-1].append(place)
    return [_terminal_table(table, [0, *chunk], widths) for chunk in chunks]


def _terminal_table(table: TextTable, places: list[int], widths: list[int]) -> Table:
    printed = Table(box=HEAD_RULE, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    for place in places:
        justify = "right" if place else "left"
        printed.add_column(escape_markup(table.header[place]), justify=justify, width=widths[place], overflow="fold")
    for row in table.rows:
        printed.add_row(*(escape_markup(row[place]) for place in places))
    return printed


# -- HTML

LONGEST_NUMBER = 22  # characters of a score with its interval


def html_table(table: TextTable, level: int = 3) -> str:
    """A table that scrolls on its own where the screen is too narrow; `level` is that of its heading, 0 for none."""
    columns = zip(*table.rows, strict=True) if table.rows else ([name] for name in table.header)
    wordy = [max(map(len, cells)) > LONGEST_NUMBER for cells in columns]
    kinds = ["", *(' class="words"' if wraps else "" for wraps in wordy[1:])]  # numbers never wrap
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(table.header, kinds, strict=True))
    body = "\n".join(_html_row(row, kinds) for row in table.rows)
    notes = f'<p class="note">{prose(" ".join(table.notes))}</p>' if table.notes else ""
    content = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    region = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}">{content}</div>'
    heading = f"<h{level}>{escape(table.title)}</h{level}>" if level else ""
    return f"{heading}\n{region}\n{notes}"


def _html_row(cells: Sequence[str], kinds: Sequence[str]) -> str:
    values = [f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True)]
    return f'<tr><th scope="row">{escape(cells[0])}</th>{"".join(values)}</tr>'


# -- Markdown


def markdown_table(table: TextTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    ruler = line(["---", *["---:"] * (len(table.header) - 1)])
    return "\n".join([line(table.header), ruler, *map(line, table.rows)])


# -- files for a paper


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"±": r"$\pm$", "–": "--", "→": r"$\rightarrow$", "›": r"$>$", "‹": r"$<$"}


def latex_escape(text: str) -> str:
    """Plain text for LaTeX, with proper minus signs before numbers."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped)


def latex_table(table: TextTable) -> str:
    """A table environment; needs the booktabs package."""

    def line(cells: Iterable[str]) -> str:
        return f"{' & '.join(map(latex_escape, cells))} \\\\"

    body = "\n".join(map(line, table.rows))
    caption = latex_escape(" ".join([f"{table.title}.", *table.notes]))
    return f"""% Needs \\usepackage{{booktabs}}.
\\begin{{table}}
\\centering
\\caption{{{caption}}}
\\begin{{tabular}}{{l{"r" * (len(table.header) - 1)}}}
\\toprule
{line(table.header)}
\\midrule
{body}
\\bottomrule
\\end{{tabular}}
\\end{{table}}
"""


def csv_table(table: TextTable) -> str:
    """The cells as printed, and empty where a value is unknown or undefined; `reaper results` has every number in full
    precision."""
    text, rows = io.StringIO(), [["" if cell == UNKNOWN else cell for cell in row] for row in table.rows]
    csv.writer(text, lineterminator="\n").writerows([table.header, *rows])
    return text.getvalue()
