"""The scores of a run so far, as points of curves. Read from finished stages, so they are the same in every process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reaper.results.metrics import METRICS, counted
from reaper.results.runs import RunResult, read_run
from reaper.storage.records import RunRecord
from reaper.storage.store import Store


@dataclass
class RunScores:
    """The scores of one run, as (step, values) points in the order of their steps."""

    name: str
    finished: int  # number of finished stages that the scores were read from
    result: RunResult
    points: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def learnt(self) -> int:
        """The number of tasks learnt before the latest known evaluation."""
        known = ~np.isnan(self.result.scores).all(axis=(1, 2))
        return int(np.max(np.nonzero(known)[0], initial=-1)) + 1


def read_scores(store: Store, record: RunRecord) -> RunScores:
    finished = sum(store.has(digest) for digest in record.stages)
    result = read_run(store, record)
    points = [*_curve_points(result), *_matrix_points(result)]
    return RunScores(record.name, finished, result, points)


def _curve_points(result: RunResult) -> Iterator[tuple[int, dict[str, float]]]:
    """Evaluations during training, over the agent steps of all tasks so far."""
    before = 0
    for phase in result.phases:
        for row in phase.rows:
            yield before + row["agent_steps"], {f"curve/{row['task']}": float(np.mean(row["scores"]))}
        before += phase.agent_steps


def _matrix_points(result: RunResult) -> Iterator[tuple[int, dict[str, float]]]:
    """One point per row of the score matrix; its step is the number of tasks learnt."""
    means, normalised = result.scores.mean(axis=2), result.matrix
    references_known = bool((result.defined | result.no_better_than_random).all())
    for k in range(len(result.tasks)):
        values = {}
        for j, task in enumerate(result.tasks):
            values |= {f"score/{task}": means[k, j], f"normalised/{task}": normalised[k, j]}
        first = result.first  # earlier rows belong to the run that this one continues
        if k >= first and references_known and not np.isnan(means[first : k + 1]).any():
            square = normalised[: k + 1, : k + 1]
            values |= {f"summary/{name.replace(' ', '_')}": metric(square, first) for name, metric in METRICS.items()}
            values["summary/tasks_counted"] = len(counted(square))  # of the tasks so far
        known = {name: float(value) for name, value in values.items() if not math.isnan(value)}
        if known:
            yield k + 1, known


TABLE_COLUMNS = ("run", "condition", "seed", "after_task", "task", "score", "normalised")


def table_rows(scores: RunScores) -> Iterator[tuple[Any, ...]]:
    """One row of `TABLE_COLUMNS` per known cell of the score matrix."""
    result, means = scores.result, scores.result.scores.mean(axis=2)
    for k, j in zip(*np.nonzero(~np.isnan(means)), strict=True):
        share = float(result.matrix[k, j])
        cell = (float(means[k, j]), None if math.isnan(share) else share)
        yield (scores.name, result.name, result.seed, result.tasks[k], result.tasks[j], *cell)
