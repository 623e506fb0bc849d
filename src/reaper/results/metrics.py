"""Continual-learning metrics of a score matrix.

A score matrix holds in row k, column j the score on task j after learning tasks 0 to k. All metrics use normalised
scores: 0 is random play, 1 is a DQN trained on that task alone.

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
        """`first` is the first known row of the matrix: above 0 where a run continues from a memory that already knew
        tasks 0 to `first`. Those tasks count as learnt at that row."""
        return self.compute(matrix, first)


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


@metric("average", "the mean over all tasks after the last one", "mean over j of R[N-1, j]")
def average(matrix: np.ndarray, first: int) -> float:
    return float(np.mean(matrix[-1]))


@metric(
    "forgetting",
    "how far each earlier task has dropped from its best score, on average",
    "mean over j < N-1 of (max over j <= k < N-1 of R[k, j]) - R[N-1, j]",
)
def forgetting(matrix: np.ndarray, first: int) -> float:
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([np.max(matrix[max(j, first) : -1, j]) - matrix[-1, j] for j in range(len(matrix) - 1)]))


@metric(
    "backward transfer",
    "how each earlier task has changed since it was learnt, on average; negative where it was forgotten",
    "mean over j < N-1 of R[N-1, j] - R[j, j]",
)
def backward_transfer(matrix: np.ndarray, first: int) -> float:
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([matrix[-1, j] - matrix[max(j, first), j] for j in range(len(matrix) - 1)]))


@metric(
    "forward transfer",
    "how much better than random play each later task is just before it is learnt, on average",
    "mean over j > 0 of R[j-1, j]",
)
def forward_transfer(matrix: np.ndarray, first: int) -> float:
    if len(matrix) < 2:
        return float("nan")
    return float(np.mean([matrix[j - 1, j] for j in range(first + 1, len(matrix))]))


@metric(
    "retained",
    "the share of the earlier tasks' scores, measured when each was learnt, that is left after the last task",
    "(sum over j < N-1 of R[N-1, j]) / (sum over j < N-1 of R[j, j])",
)
def retained(matrix: np.ndarray, first: int) -> float:
    """NaN if next to nothing was learnt."""
    learnt = sum(matrix[max(j, first), j] for j in range(len(matrix) - 1))
    return float(sum(matrix[-1, :-1]) / learnt) if learnt > 0.01 else float("nan")


def bootstrap_interval(values: Sequence[float], level: float = 0.95, draws: int = 5_000) -> tuple[float, float]:
    """A confidence interval for the mean over seeds, by resampling them; with one seed it is that seed's value."""
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(0).choice(sample, size=(draws, len(sample))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
