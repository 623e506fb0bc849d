"""What a store holds of one experiment, and how its numbers become text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reaper.paper.results import TASKS, Score
from reaper.report.text_table import UNKNOWN, TextTable, decimals_for, mean_and_deviation, score
from reaper.results.runs import RunResult
from reaper.storage.records import ROLES, AnalysisStageEntry, ExperimentRecord
from reaper.storage.store import Store

TablesAndSummary = tuple[list[TextTable], str]  # the summary is one sentence, or empty


@dataclass(frozen=True)
class ExperimentData:
    """The runs and further stages of one experiment on one sequence."""

    store: Store
    records: list[ExperimentRecord]  # one per seed
    results: list[RunResult]

    @property
    def sequence(self) -> str:
        return self.records[0].sequence

    @property
    def name(self) -> str:
        return self.records[0].name.rpartition("--seed-")[0]

    @property
    def tasks(self) -> list[str]:
        return list(self.records[0].tasks)

    @property
    def titles(self) -> list[str]:
        return list(self.records[0].titles)

    @property
    def has_paper_tasks(self) -> bool:
        return tuple(self.tasks) == TASKS

    def finished(self, role: str) -> list[tuple[int, AnalysisStageEntry]]:
        """Seed and entry of the finished stages of one role."""
        return [
            (record.seed, stage)
            for record in self.records
            for stage in record.stages
            if stage.role == role and self.store.has(stage.digest)
        ]

    @property
    def missing(self) -> int:
        """The number of stages still to run."""
        wanted = {digest for result in self.results for role in ROLES for digest in result.record.of_role(role)}
        wanted |= {stage.digest for record in self.records for stage in record.stages}
        return sum(not self.store.has(digest) for digest in wanted)


def known_mean_and_deviation(scores: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Over the scores that are not NaN."""
    array = np.asarray(scores, dtype=float)
    return mean_and_deviation(array[~np.isnan(array)])


def score_texts(cells: list[list[tuple[float, float]]]) -> list[list[str]]:
    """Means and standard deviations as text, with one precision per column."""
    places = [decimals_for(cell[0] for cell in column) for column in zip(*cells, strict=True)]
    return [[score(*cell, place) for cell, place in zip(row, places, strict=True)] for row in cells]


def published_texts(cells: Sequence[Score | None]) -> list[str]:
    return [score(cell.mean, cell.deviation, 0) if cell else UNKNOWN for cell in cells]
