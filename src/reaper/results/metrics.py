"""Continual-learning metrics of a score matrix.

A score matrix holds in row k, column j the score on task j after learning tasks 0 to k. All metrics use normalised
scores: 0 is random play, 1 is a DQN trained on that task alone. Where that DQN is no better than random play, they are
undefined: the task's whole column is NaN, and every metric leaves the task out. Other NaNs are scores that are not
known yet, and make the metrics that need them NaN.

To add a metric, write a function here and decorate it with `@metric`. All tables (terminal, page, Markdown, LaTeX,
CSV), the explanations on the page and the TensorBoard and W&B summaries read `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Compute = Callable[[np.ndarray, int], float]


@dataclass(frozen=True)
class Metric:
    """One number per run, computed from its matrix of normalised scores."""

    name: str  # a table's heading
    definition: str  # a sentence without a full stop, as it follows the name
    formula: str  # R[k, j] is the normalised score on task j after task k; N tasks, counted from 0
    compute: Compute

    def __call__(self, matrix: np.ndarray, first: int = 0) -> float:
        """NaN if no task counts. `first` is the first known row of the matrix: above 0 where a run continues from a
        memory that already knew tasks 0 to `first`. Those tasks count as learnt at that row."""
        return self.compute(matrix, first) if len(counted(matrix)) else float("nan")


METRICS: dict[str, Metric] = {}


def metric(name: str, definition: str, formula: str) -> Callable[[Compute], Metric]:
    """Registers the decorated function under this name."""

    def register(compute: Compute) -> Metric:
        METRICS[name] = Metric(name, definition, formula, compute)
        return METRICS[name]

    return register


def normalised(score: np.ndarray | float, random: np.ndarray | float, single: np.ndarray | float) -> np.ndarray:
    """(score - random) / (single - random); NaN where the single-task DQN is no better than random play."""
    gain = np.asarray(single, dtype=float) - random
    return np.where(gain > 0, (np.asarray(score) - random) / np.where(gain > 0, gain, 1.0), np.nan)


def mean_interval(scores: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the mean over episodes: 1.96 standard errors either way. One episode tells nothing about the
    spread, so its interval is unbounded."""
    error = 1.96 * scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.inf
    return float(scores.mean() - error), float(scores.mean() + error)


def better_than_random(single: np.ndarray, random: np.ndarray) -> bool:
    """Whether the interval of the single-task DQN's episodes is above that of random play; False where they overlap,
    and where either is unknown."""
    return mean_interval(single)[0] > mean_interval(random)[1]


def counted(matrix: np.ndarray) -> np.ndarray:
    """The tasks whose normalised scores are defined: all others are left out of every metric."""
    return np.flatnonzero(~np.isnan(matrix).all(axis=0))


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


@metric("average", "the mean over all tasks after the last one", "mean over j of R[N-1, j]")
def average(matrix: np.ndarray, first: int) -> float:
    return _mean(matrix[-1, counted(matrix)])


@metric(
    "forgetting",
    "how far each earlier task has dropped from its best score, on average",
    "mean over j < N-1 of (max over j <= k < N-1 of R[k, j]) - R[N-1, j]",
)
def forgetting(matrix: np.ndarray, first: int) -> float:
    return _mean([np.max(matrix[max(j, first) : -1, j]) - matrix[-1, j] for j in _earlier(matrix)])


@metric(
    "backward transfer",
    "how each earlier task has changed since it was learnt, on average; negative where it was forgotten",
    "mean over j < N-1 of R[N-1, j] - R[j, j]",
)
def backward_transfer(matrix: np.ndarray, first: int) -> float:
    return _mean([matrix[-1, j] - matrix[max(j, first), j] for j in _earlier(matrix)])


@metric(
    "forward transfer",
    "how much better than random play each later task is just before it is learnt, on average",
    "mean over j > 0 of R[j-1, j]",
)
def forward_transfer(matrix: np.ndarray, first: int) -> float:
    return _mean([float(matrix[j - 1, j]) for j in counted(matrix) if j > first])


@metric(
    "retained",
    "the share of the earlier tasks' scores, measured when each was learnt, that is left after the last task",
    "(sum over j < N-1 of R[N-1, j]) / (sum over j < N-1 of R[j, j])",
)
def retained(matrix: np.ndarray, first: int) -> float:
    """NaN if next to nothing was learnt."""
    learnt = sum(matrix[max(j, first), j] for j in _earlier(matrix))
    return float(sum(matrix[-1, j] for j in _earlier(matrix)) / learnt) if learnt > 0.01 else float("nan")


def _earlier(matrix: np.ndarray) -> list[int]:
    """The tasks that count and could have been forgotten."""
    return [j for j in counted(matrix) if j < len(matrix) - 1]


def bootstrap_interval(values: Sequence[float], level: float = 0.95, draws: int = 5_000) -> tuple[float, float]:
    """A confidence interval for the mean over seeds, by resampling them; with one seed it is that seed's value."""
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(0).choice(sample, size=(draws, len(sample))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# 97.5 % points of Student's t distribution for 1, 2, ... degrees of freedom.
_T_POINTS = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval for the mean over seeds by Student's t. With few seeds it is wider than a bootstrap interval,
    which cannot know of values that it has not seen. With one seed it is unbounded."""
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        return -np.inf, np.inf
    point = _T_POINTS[len(sample) - 2] if len(sample) - 2 < len(_T_POINTS) else 1.96
    error = point * sample.std(ddof=1) / np.sqrt(len(sample))
    return float(sample.mean() - error), float(sample.mean() + error)
