"""Scores as grids of text, the one form that terminal, Markdown and HTML are made from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reaper.report.scores import ConditionScores, SequenceScores
from reaper.results.metrics import METRICS, bootstrap_interval

NOTHING = "–"


@dataclass(frozen=True)
class TextTable:
    """A table of text; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)
    name: str = ""  # of its files, where it is not the title

    @property
    def stem(self) -> str:
        """A file's name without its ending."""
        return self.name or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


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


def score_table(scores: SequenceScores) -> TextTable:
    """Mean and deviation of the last agents' games, memory, normalised average and seeds."""
    rows = [(condition.name, condition.games) for condition in scores.conditions]
    rows += [(reference.label, reference.games) for reference in scores.references]
    columns: dict[str, list[str]] = {"condition": [label for label, _ in rows]}
    for j, title in enumerate(scores.titles):
        cells = [moments(games[j]) for _, games in rows]
        decimals = decimals_for(mean for mean, _ in cells)
        columns[title] = [score(*cell, decimals) for cell in cells]
    padding = [NOTHING] * len(scores.references)
    columns.update({name: [*cells, *padding] for name, cells in _own_columns(scores).items()})
    notes = ["Mean score of the last agent and standard deviation over all games of all seeds."]
    if scores.conditions:
        notes.append("The average is of normalised scores: 0 is random play, 1 a DQN trained on that task alone.")
    return TextTable("Scores", tuple(columns), list(zip(*columns.values(), strict=True)), notes)


def _own_columns(scores: SequenceScores) -> dict[str, list[str]]:
    """What only conditions have, and references do not."""
    if not scores.conditions:
        return {}
    sizes = [condition.memory_bytes for condition in scores.conditions]
    name, size, decimals = memory_unit(sizes)
    return {
        f"memory ({name})": [number(value / size, decimals) for value in sizes],
        "average": [_mean(condition.metric("average")) for condition in scores.conditions],
        "seeds": [_seeds(condition) for condition in scores.conditions],
    }


def moments(games: np.ndarray) -> tuple[float, float]:
    return (float(games.mean()), float(games.std())) if len(games) else (float("nan"), float("nan"))


def _seeds(condition: ConditionScores) -> str:
    done, all_ = len(condition.complete), len(condition.runs)
    return str(done) if done == all_ else f"{done} of {all_}"


def metric_table(scores: SequenceScores) -> TextTable:
    """Normalised scores, and what they say about learning and forgetting."""
    several = any(len(condition.metric("average")) > 1 for condition in scores.conditions)
    rows = [
        (
            condition.name,
            *map(number, condition.normalised),
            *(_with_interval(condition.metric(name)) for name in METRICS),
        )
        for condition in scores.conditions
    ]
    notes = ["Normalised: 0 is random play, 1 is a DQN trained on that task alone; means over seeds."]
    notes += ["In brackets, 95 % intervals: a bootstrap over seeds."] if several else []
    header = ("condition", *scores.titles, *METRICS)
    return TextTable("Learning and forgetting", header, rows, notes, "forgetting")


def _mean(values: Sequence[float]) -> str:
    return number(float(np.mean(values))) if len(values) else NOTHING


def _with_interval(values: Sequence[float]) -> str:
    """With one seed there is nothing to resample, so no interval is shown."""
    return (
        f"{_mean(values)} [{', '.join(map(number, bootstrap_interval(values)))}]" if len(values) > 1 else _mean(values)
    )


def matrix_table(condition: ConditionScores, titles: Sequence[str]) -> TextTable:
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
    return TextTable(condition.name, ("", *(f"on {title}" for title in titles)), rows)
