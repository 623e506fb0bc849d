"""What a store holds of one experiment, and how its numbers become text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reaper.paper.results import TASKS, Score
from reaper.report.score_tables import NOTHING, TextTable, decimals_for, score
from reaper.results.runs import RunResult
from reaper.storage.records import ROLES, ExperimentRecord
from reaper.storage.store import Store

TablesAndSummary = tuple[list[TextTable], str]


@dataclass(frozen=True)
class ExperimentData:
    """What a store holds of one experiment on one sequence."""

    store: Store
    records: list[ExperimentRecord]  # one a seed
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
    def is_the_papers(self) -> bool:
        return tuple(self.tasks) == TASKS

    @cached_property
    def further(self) -> list[dict[str, Any]]:
        """The stages that the analysis added, each with its seed."""
        return [{**asdict(stage), "seed": record.seed} for record in self.records for stage in record.stages]

    def rows(self, role: str) -> list[dict[str, Any]]:
        """Of one role, those that are finished."""
        return [row for row in self.further if row["role"] == role and self.store.has(row["digest"])]

    @property
    def missing(self) -> int:
        wanted = {digest for result in self.results for role in ROLES for digest in result.record.of_role(role)}
        wanted |= {row["digest"] for row in self.further}
        return sum(not self.store.has(digest) for digest in wanted)


def moments(games: Sequence[float] | np.ndarray) -> tuple[float, float]:
    known = np.asarray(games, dtype=float)
    known = known[~np.isnan(known)]
    return (float(known.mean()), float(known.std())) if len(known) else (math.nan, math.nan)


def score_texts(cells: list[list[tuple[float, float]]]) -> list[list[str]]:
    """Means and deviations as text, column by column with one precision each."""
    places = [decimals_for(cell[0] for cell in column) for column in zip(*cells, strict=True)]
    return [[score(*cell, place) for cell, place in zip(row, places, strict=True)] for row in cells]


def published_texts(cells: Sequence[Score | None]) -> list[str]:
    return [score(cell.mean, cell.deviation, 0) if cell else NOTHING for cell in cells]
