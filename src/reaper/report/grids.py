"""Scores as grids of text, the one form that terminal, Markdown and HTML are made from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reaper.metrics import bootstrap_interval
from reaper.paper.results import Score
from reaper.report.scores import ConditionScores, SequenceScores

NOTHING = "–"


@dataclass(frozen=True)
class Grid:
    """A table of text; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)


def number(value: float, decimals: int = 2) -> str:
    if math.isnan(value):
        return NOTHING
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text  # no minus zero


def decimals_for(values: Iterable[float]) -> int:
    """One precision for a column: whole points where scores are in the hundreds."""
    largest = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
    return 0 if largest >= 100 else 1 if largest >= 10 else 2


def score(mean: float, deviation: float, decimals: int) -> str:
    return NOTHING if math.isnan(mean) else f"{number(mean, decimals)} ± {number(deviation, decimals)}"


def memory_unit(sizes: Iterable[float]) -> tuple[str, float, int]:
    """One unit for a column: its name, its bytes and the decimals to print. GB, as in the paper, is 10^9 bytes."""
    largest = max((size for size in sizes if not math.isnan(size)), default=0.0)
    return ("GB", 1e9, 3) if largest >= 1e8 else ("MB", 1e6, 2) if largest >= 1e6 else ("kB", 1e3, 1)


def score_grid(scores: SequenceScores, with_paper: bool) -> Grid:
    """Mean and deviation of the last agents' games, memory and seeds; if asked, the paper's numbers beside them."""
    rows = [(condition.name, condition.games) for condition in scores.conditions]
    rows += [(reference.label, reference.games) for reference in scores.references]
    columns: dict[str, list[str]] = {"condition": [label for label, _ in rows]}
    for j, title in enumerate(scores.titles):
        cells = [_moments(games[j]) for _, games in rows]
        decimals = decimals_for(mean for mean, _ in cells)
        columns[title] = [score(*cell, decimals) for cell in cells]
        if with_paper and any(line[j] for line in _published(scores)):
            columns[f"{title}, paper"] = _paper_column(scores, j)
    columns.update(_memory_columns(scores, with_paper))
    columns["seeds"] = [*map(_seeds, scores.conditions), *[NOTHING] * len(scores.references)]
    notes = ["Mean score of the last agent and standard deviation over all games of all seeds."]
    notes += _budget_note(scores) if with_paper else []
    return Grid("Scores", tuple(columns), list(zip(*columns.values(), strict=True)), notes)


def paper_grid(scores: SequenceScores) -> Grid | None:
    """What the paper prints for the same conditions and tasks; None where it prints nothing."""
    known = [any(line) for line in _published(scores)]
    if not any(known):
        return None
    labels = [row.name for row in scores.conditions] + [row.label for row in scores.references]
    columns = [labels, *(_paper_column(scores, j) for j in range(len(scores.tasks)))]
    rows = [row for row, has in zip(zip(*columns, strict=True), known, strict=True) if has]
    return Grid("The paper's scores", ("condition", *scores.titles), rows, _budget_note(scores))


def _budget_note(scores: SequenceScores) -> list[str]:
    share = scores.share_of_budget
    if share >= 1 or not any(map(any, _published(scores))):
        return []
    text = f"run at a fraction of the budget, not comparable ({share:.3g} of the paper's frames)"
    return [f"The paper's numbers: {text}."]


def _paper_column(scores: SequenceScores, task: int) -> list[str]:
    return [score(*cell, 0) if (cell := line[task]) else NOTHING for line in _published(scores)]


def _moments(games: np.ndarray) -> tuple[float, float]:
    return (float(games.mean()), float(games.std())) if len(games) else (float("nan"), float("nan"))


def _published(scores: SequenceScores) -> list[tuple[Score | None, ...]]:
    """The paper's scores for every row of the table."""
    nothing = (None,) * len(scores.tasks)
    return [condition.published or nothing for condition in scores.conditions] + [
        reference.published for reference in scores.references
    ]


def _memory_columns(scores: SequenceScores, with_paper: bool) -> dict[str, list[str]]:
    if not scores.conditions:
        return {}
    ours = [condition.memory_bytes for condition in scores.conditions]
    theirs = [condition.published_bytes or float("nan") for condition in scores.conditions] if with_paper else []
    name, size, decimals = memory_unit([*ours, *theirs])
    padding = [NOTHING] * len(scores.references)
    columns = {f"memory ({name})": [*(number(value / size, decimals) for value in ours), *padding]}
    if not all(map(math.isnan, theirs)):
        columns["memory, paper"] = [*(number(value / size, decimals) for value in theirs), *padding]
    return columns


def _seeds(condition: ConditionScores) -> str:
    done, all_ = len(condition.complete), len(condition.runs)
    return str(done) if done == all_ else f"{done} of {all_}"


def metric_grid(scores: SequenceScores) -> Grid:
    """Normalised scores, and what they say about learning and forgetting."""
    others = ("forgetting", "backward transfer", "forward transfer")
    several = any(len(condition.metric("average")) > 1 for condition in scores.conditions)
    interval = ("95 % interval",) if several else ()
    rows = [
        (
            condition.name,
            *map(number, condition.normalised),
            _mean(condition.metric("average")),
            *(_interval(condition.metric("average")) for _ in interval),
            *(_mean(condition.metric(name)) for name in others),
        )
        for condition in scores.conditions
    ]
    notes = ["0 is random play, 1 is a DQN trained on that task alone; means over seeds."]
    notes += ["The interval of the average is a bootstrap over seeds."] if several else []
    return Grid("Normalised scores", ("condition", *scores.titles, "average", *interval, *others), rows, notes)


def _mean(values: Sequence[float]) -> str:
    return number(float(np.mean(values))) if len(values) else NOTHING


def _interval(values: Sequence[float]) -> str:
    """With one seed there is nothing to resample, so no interval is shown."""
    return " to ".join(map(number, bootstrap_interval(values))) if len(values) > 1 else NOTHING


def matrix_grid(condition: ConditionScores, titles: Sequence[str]) -> Grid:
    """The whole score matrix: after each task, on each task, raw and normalised."""
    decimals = [decimals_for(column) for column in condition.raw_matrix.T]
    rows = [
        (
            f"after {title}",
            *(
                NOTHING if math.isnan(raw) else f"{number(raw, places)} ({number(share)})"
                for raw, share, places in zip(raws, shares, decimals, strict=True)
            ),
        )
        for title, raws, shares in zip(titles, condition.raw_matrix, condition.matrix, strict=True)
    ]
    return Grid(condition.name, ("", *(f"on {title}" for title in titles)), rows)
