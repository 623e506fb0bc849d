"""The score tables for a terminal, a Markdown page and an HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rich import box
from rich.markup import escape as plain
from rich.table import Table

from reaper.report.findings import cautions, headline, listed, standing
from reaper.report.grids import Grid, matrix_grid, metric_grid, paper_grid, score_grid
from reaper.report.making import Making, read_making
from reaper.report.scores import SequenceScores, gather_scores
from reaper.results import RunResult, read_results
from reaper.store import Store


def names_of(sequences: Sequence[SequenceScores]) -> list[str]:
    """All conditions of a folder, each once."""
    return list(dict.fromkeys(condition.name for scores in sequences for condition in scores.conditions))


def grids_of(scores: SequenceScores) -> list[Grid]:
    """Scores, and where anything learns in sequence, what is made of them."""
    return [score_grid(scores, with_paper=True), *([metric_grid(scores)] if scores.conditions else [])]


# -- terminal


def for_terminal(results: Iterable[RunResult]) -> list[Table]:
    """The tables of every sequence, to be printed one after another."""
    sequences = gather_scores(results)
    tables = []
    for scores in sequences:
        published = paper_grid(scores)  # under our scores, not beside them: a terminal is narrow
        grids = [score_grid(scores, with_paper=False), *([published] if published else []), *grids_of(scores)[1:]]
        notes = [*(note for grid in grids for note in grid.notes), *cautions(scores, names_of(sequences))]
        for grid in grids:
            last = grid is grids[-1]
            tables.append(_terminal_table(grid, f"{scores.sequence}: {grid.title.lower()}", notes if last else []))
    return tables


def _terminal_table(grid: Grid, title: str, notes: list[str]) -> Table:
    table = Table(
        title=plain(title),
        caption=plain("\n".join(notes)) or None,
        box=box.SIMPLE_HEAD,
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )
    for place, name in enumerate(grid.header):
        words = [row[place] for row in grid.rows] + name.split()  # headers may wrap between words, cells may not
        table.add_column(plain(name), justify="right" if place else "left", min_width=max(map(len, words)))
    for row in grid.rows:
        table.add_row(*map(plain, row))
    return table


# -- HTML


def for_html(grid: Grid) -> str:
    """A table that scrolls by itself where the screen is too narrow for it."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in grid.rows
    )
    notes = f'<p class="note">{escape(" ".join(grid.notes))}</p>' if grid.notes else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    region = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(grid.title)}">{table}</div>'
    return f"<h3>{escape(grid.title)}</h3>\n{region}\n{notes}"


# -- Markdown


def for_markdown(store: Store, commands: Sequence[str] = ()) -> str:
    """A complete document; `commands` are those that made the folder, word for word."""
    results = read_results(store)
    sequences, making = gather_scores(results), read_making(store, results)
    parts = ["# What was learnt, and what was kept", headline(sequences)]
    if commands:
        parts.append("\n".join(["```sh", *commands, "```"]))
    parts.append(f"Fraction of the budget: {making.fraction:g}. Seeds: {', '.join(map(str, making.seeds)) or 'none'}.")
    for scores in sequences:
        parts += _sequence_in_markdown(scores, names_of(sequences))
    return "\n\n".join([*parts, *_making_in_markdown(making)]) + "\n"


def _sequence_in_markdown(scores: SequenceScores, names: Sequence[str]) -> list[str]:
    parts = [f"## {scores.sequence}: {listed(scores.titles)}"]
    if sentence := standing(scores):
        parts.append(sentence)
    if warnings := cautions(scores, names):
        parts.append("\n".join(f"- {text}" for text in warnings))
    for grid in grids_of(scores):
        parts += [f"### {grid.title}", _markdown_table(grid), *grid.notes]
    if scores.conditions:
        parts += ["### Score matrices", "Mean score after each task on each task; in brackets, normalised."]
    for condition in scores.conditions:
        parts += [f"**{condition.name}**", _markdown_table(matrix_grid(condition, scores.titles))]
    return parts


def _making_in_markdown(making: Making) -> list[str]:
    parts = ["## How it was made", "\n".join(f"- {name}: {text}" for name, text in making.facts)]
    for grid in (making.time, making.settings, making.own_settings):
        if grid and grid.rows:
            parts += [f"### {grid.title}", _markdown_table(grid), *grid.notes]
    return parts


def _markdown_table(grid: Grid) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    ruler = line(["---", *["---:"] * (len(grid.header) - 1)])
    return "\n".join([line(grid.header), ruler, *map(line, grid.rows)])
