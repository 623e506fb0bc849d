"""What a score matrix says: how much was learnt, kept, lost and passed on.

A score matrix holds in row k, column j the score on task j after learning tasks 0 to k. All metrics are over
normalised scores: 0 is random play, 1 is a DQN trained on that task alone.

`first` is the first row that is known: above 0 where a run goes on from a memory that knew tasks 0 to `first` already.
For those, "when it was learnt" is that row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def normalised(score: np.ndarray | float, random: np.ndarray | float, single: np.ndarray | float) -> np.ndarray:
    """Random play is 0, the single-task DQN is 1; NaN where that DQN is no better than random play."""
    gain = np.asarray(single, dtype=float) - random
    return np.where(gain > 0, (np.asarray(score) - random) / np.where(gain > 0, gain, 1.0), np.nan)


def average(matrix: np.ndarray, first: int = 0) -> float:
    """The mean over all tasks after the last one."""
    return float(np.mean(matrix[-1]))


def forgetting(matrix: np.ndarray, first: int = 0) -> float:
    """How far each earlier task has fallen from the best it ever was, on average."""
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([np.max(matrix[max(j, first) : -1, j]) - matrix[-1, j] for j in range(len(matrix) - 1)]))


def backward_transfer(matrix: np.ndarray, first: int = 0) -> float:
    """How each earlier task has changed since it was learnt, on average: negative where it was forgotten."""
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([matrix[-1, j] - matrix[max(j, first), j] for j in range(len(matrix) - 1)]))


def forward_transfer(matrix: np.ndarray, first: int = 0) -> float:
    """How much better than random play each later task is just before it is learnt, on average."""
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([matrix[j - 1, j] for j in range(first + 1, len(matrix))]))


def kept(matrix: np.ndarray, first: int = 0) -> float:
    """The share of what was learnt of the earlier tasks that is there after the last one; NaN if nothing was learnt."""
    learnt = sum(matrix[max(j, first), j] for j in range(len(matrix) - 1))
    return float(sum(matrix[-1, :-1]) / learnt) if learnt > 0 else float("nan")


METRICS: dict[str, Callable[[np.ndarray, int], float]] = {
    "average": average,
    "forgetting": forgetting,
    "backward transfer": backward_transfer,
    "forward transfer": forward_transfer,
}


def bootstrap_interval(values: Sequence[float], level: float = 0.95, draws: int = 5_000) -> tuple[float, float]:
    """An interval for the mean over seeds, by resampling them; with one seed it is that seed's value."""
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(0).choice(sample, size=(draws, len(sample))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
