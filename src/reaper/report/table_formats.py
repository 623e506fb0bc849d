"""Grids of text for a terminal, an HTML page, a Markdown page, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from html import escape

from rich import box
from rich.markup import escape as plain
from rich.table import Table

from reaper.report.findings import caveats, final_level, headline, listed
from reaper.report.layout import prose
from reaper.report.paper_comparison import paper_table
from reaper.report.provenance import Provenance, read_provenance
from reaper.report.score_tables import TextTable, matrix_table, metric_table, score_table
from reaper.report.scores import SequenceScores, gather_scores
from reaper.results.runs import RunResult, read_results
from reaper.storage.store import Store


def condition_names(sequences: Sequence[SequenceScores]) -> list[str]:
    """All conditions of a folder, each once."""
    return list(dict.fromkeys(condition.name for scores in sequences for condition in scores.conditions))


def sequence_tables(scores: SequenceScores) -> list[TextTable]:
    """Scores, the paper's, and where anything learns in sequence, what is made of them."""
    grids = [score_table(scores), paper_table(scores), metric_table(scores) if scores.conditions else None]
    return [grid for grid in grids if grid]


# -- terminal

TERMINAL_WIDTH = 80


def for_terminal(results: Iterable[RunResult]) -> list[Table]:
    """The tables of every sequence, to be printed one after another."""
    sequences = gather_scores(results)
    tables = []
    for scores in sequences:
        grids = [part for grid in sequence_tables(scores) for part in _narrow(grid)]
        notes = [*(note for grid in grids for note in grid.notes), *caveats(scores, condition_names(sequences))]
        for grid in grids:
            last = grid is grids[-1]
            tables.append(terminal_table(grid, f"{scores.sequence}: {grid.title.lower()}", notes if last else []))
    return tables


def _width(grid: TextTable, place: int) -> int:
    """Of a column: headers may wrap between words, cells may not."""
    return max(map(len, [row[place] for row in grid.rows] + grid.header[place].split()))


def _narrow(grid: TextTable) -> list[TextTable]:
    """The grid as it is, or its columns in as many grids as a terminal needs, all but the last without the notes."""
    chunks: list[list[int]] = [[]]
    for place in range(1, len(grid.header)):
        if chunks[-1] and sum(_width(grid, p) + 2 for p in (0, *chunks[-1], place)) >= TERMINAL_WIDTH:
            chunks.append([])
        chunks[-1].append(place)
    return [
        TextTable(
            grid.title,
            tuple(grid.header[p] for p in (0, *chunk)),
            [tuple(row[p] for p in (0, *chunk)) for row in grid.rows],
            grid.notes if chunk is chunks[-1] else [],
        )
        for chunk in chunks
    ]


def terminal_table(grid: TextTable, title: str, notes: list[str]) -> Table:
    table = Table(
        title=plain(title),
        caption=plain("\n".join(notes)) or None,
        box=box.SIMPLE_HEAD,
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )
    for place, name in enumerate(grid.header):
        table.add_column(plain(name), justify="right" if place else "left", width=_width(grid, place))
    for row in grid.rows:
        table.add_row(*map(plain, row))
    return table


# -- HTML

LONGEST_NUMBER = 22  # characters of a score with its interval


def html_table(grid: TextTable, level: int = 3) -> str:
    """A table that scrolls by itself where the screen is too narrow for it; `level` is its heading's, 0 for none."""
    columns = zip(*grid.rows, strict=True) if grid.rows else ([name] for name in grid.header)
    wordy = [max(map(len, cells)) > LONGEST_NUMBER for cells in columns]
    kinds = ["", *(' class="words"' if wraps else "" for wraps in wordy[1:])]  # numbers never wrap
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(grid.header, kinds, strict=True))
    body = "\n".join(_row(row, kinds) for row in grid.rows)
    notes = f'<p class="note">{prose(" ".join(grid.notes))}</p>' if grid.notes else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    region = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(grid.title)}">{table}</div>'
    heading = f"<h{level}>{escape(grid.title)}</h{level}>" if level else ""
    return f"{heading}\n{region}\n{notes}"


def _row(cells: Sequence[str], kinds: Sequence[str]) -> str:
    values = [f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True)]
    return f'<tr><th scope="row">{escape(cells[0])}</th>{"".join(values)}</tr>'


# -- Markdown


def for_markdown(store: Store, commands: Sequence[str] = ()) -> str:
    """A complete document; `commands` are those that made the folder, word for word."""
    results = read_results(store)
    sequences, making = gather_scores(results), read_provenance(store, results)
    parts = ["# What was learnt, and what was kept", headline(sequences)]
    if commands:
        parts.append("\n".join(["```sh", *commands, "```"]))
    parts.append(f"Fraction of the budget: {making.fraction:g}. Seeds: {', '.join(map(str, making.seeds)) or 'none'}.")
    for scores in sequences:
        parts += _sequence_in_markdown(scores, condition_names(sequences))
    return "\n\n".join([*parts, *_making_in_markdown(making)]) + "\n"


def _sequence_in_markdown(scores: SequenceScores, names: Sequence[str]) -> list[str]:
    parts = [f"## {scores.sequence}: {listed(scores.titles)}"]
    if sentence := final_level(scores):
        parts.append(sentence)
    if warnings := caveats(scores, names):
        parts.append("\n".join(f"- {text}" for text in warnings))
    for grid in sequence_tables(scores):
        parts += [f"### {grid.title}", markdown_table(grid), *grid.notes]
    if scores.conditions:
        parts += ["### Score matrices", "Mean score after each task on each task; in brackets, normalised."]
    for condition in scores.conditions:
        parts += [f"**{condition.name}**", markdown_table(matrix_table(condition, scores.titles))]
    return parts


def _making_in_markdown(making: Provenance) -> list[str]:
    parts = ["## How it was made", "\n".join(f"- {name}: {text}" for name, text in making.facts)]
    for grid in making.grids:
        parts += [f"### {grid.title}", markdown_table(grid), *grid.notes]
    return parts


def markdown_table(grid: TextTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    ruler = line(["---", *["---:"] * (len(grid.header) - 1)])
    return "\n".join([line(grid.header), ruler, *map(line, grid.rows)])


# -- files for a paper


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"±": r"$\pm$", "–": "--", "→": r"$\rightarrow$", "›": r"$>$", "‹": r"$<$"}


def latex_escape(text: str) -> str:
    """Plain text for LaTeX, with proper minus signs before numbers."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped)


def latex_table(grid: TextTable) -> str:
    """A table environment; needs the booktabs package."""

    def line(cells: Iterable[str]) -> str:
        return f"{' & '.join(map(latex_escape, cells))} \\\\"

    body = "\n".join(map(line, grid.rows))
    caption = latex_escape(" ".join([f"{grid.title}.", *grid.notes]))
    return f"""% Needs \\usepackage{{booktabs}}.
\\begin{{table}}
\\centering
\\caption{{{caption}}}
\\begin{{tabular}}{{l{"r" * (len(grid.header) - 1)}}}
\\toprule
{line(grid.header)}
\\midrule
{body}
\\bottomrule
\\end{{tabular}}
\\end{{table}}
"""


def csv_table(grid: TextTable) -> str:
    """The cells as they are printed; `reaper results` has every number in full."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([grid.header, *grid.rows])
    return text.getvalue()
