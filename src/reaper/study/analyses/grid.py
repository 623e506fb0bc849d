"""Choosing the best point of a grid search, as the EWC appendix does.

Every task's score is put on a scale from the worst to the best game of all tests during the learning of that task in
the short-term system; the point whose last agent has the best average over tasks is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def game_range(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The worst and the best game among all tests of a teacher; NaN where there were none."""
    games = [score for row in rows for score in row["scores"]]
    return (min(games), max(games)) if games else (math.nan, math.nan)


def min_max(score: float, worst: float, best: float) -> float:
    """0 at the worst, 1 at the best; NaN where these are the same, and nothing can be told apart."""
    return (score - worst) / (best - worst) if best > worst else math.nan


def average_of_known(values: Sequence[float]) -> float:
    """The mean over tasks that could be normalised."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def choose(averages: Mapping[str, float]) -> str | None:
    """The point with the best average; of equal ones the first, and None where nothing is known."""
    known = {name: value for name, value in averages.items() if not math.isnan(value)}
    return max(known, key=lambda name: known[name]) if known else None
