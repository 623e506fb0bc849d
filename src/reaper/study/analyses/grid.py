"""Choosing the best point of a grid search, as the EWC appendix does.

Each task's score is normalised to the range from the worst to the best episode among all evaluations of that task's
teacher during its training. The point whose last agent has the best average over tasks is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def episode_range(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The worst and the best episode among all evaluations of a teacher; NaN if there were none."""
    scores = [score for row in rows for score in row["scores"]]
    return (min(scores), max(scores)) if scores else (math.nan, math.nan)


def min_max(score: float, worst: float, best: float) -> float:
    """0 at the worst, 1 at the best; NaN if these are equal."""
    return (score - worst) / (best - worst) if best > worst else math.nan


def average_of_known(values: Sequence[float]) -> float:
    """The mean over the tasks that could be normalised; NaN if there is none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def number_known(values: Sequence[float]) -> int:
    """How many tasks such an average counts."""
    return sum(not math.isnan(value) for value in values)


def choose(averages: Mapping[str, float]) -> str | None:
    """The point with the best average, the first of equal ones; None if no average is known."""
    known = {name: value for name, value in averages.items() if not math.isnan(value)}
    return max(known, key=lambda name: known[name]) if known else None
