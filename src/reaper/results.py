"""Results: what the stages of a store say about each run, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from reaper import metrics
from reaper.errors import DamagedArtefact
from reaper.paper.settings import Settings
from reaper.scales import from_dict
from reaper.store import Store


@dataclass
class Phase:
    """The training of one task into the long-term agent: evaluations on the tasks so far."""

    task: str
    observed_frames: int  # the length of the phase
    rows: list[dict[str, Any]]


@dataclass
class RunResult:
    """One condition, one sequence, one seed."""

    condition: dict[str, Any]
    sequence: str
    tasks: list[str]
    titles: list[str]
    seed: int
    settings: Settings
    learnt: int  # how many tasks have been consolidated
    scores: np.ndarray  # (tasks, tasks, games): after each task, on each task; NaN where not finished
    single: np.ndarray  # (tasks, games)
    random: np.ndarray  # (tasks, games)
    memory_bytes: list[int | None]  # after each task; None where there is no memory yet
    phases: list[Phase]
    seconds: dict[str, float]  # wall time by digest of stage
    missing: int  # stages still to run
    stages: dict[str, Any] = field(default_factory=dict)  # the run's record

    @property
    def name(self) -> str:
        return self.condition["name"]

    @property
    def consolidates(self) -> bool:
        return bool(self.stages["memories"])

    @cached_property
    def matrix(self) -> np.ndarray:
        """Normalised scores: (tasks, tasks)."""
        return metrics.normalised(self.scores.mean(axis=2), self.random.mean(axis=1), self.single.mean(axis=1))

    @property
    def finished(self) -> bool:
        return self.missing == 0

    @property
    def final(self) -> np.ndarray:
        """The scores of the last agent's games, (tasks, games); a `single` run's are its teachers'."""
        return self.scores[-1] if self.consolidates else self.single


def read_results(store: Store) -> list[RunResult]:
    """Every run in the folder, finished or not."""
    return [_checked_run(store, record) for record in store.runs()]


def _checked_run(store: Store, record: dict[str, Any]) -> RunResult:
    """A record and rows that do not fit together are whole files of different runs, or forged ones."""
    try:
        return _read_run(store, record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        path = store.folder / "runs" / f"{record['name']}.json"
        raise DamagedArtefact(path, f"and its stages do not fit together ({error!r})") from None


def _rows(store: Store, digest: str | None) -> list[dict[str, Any]]:
    return store.stage(digest).document("rows") if digest and store.has(digest) else []


def _read_run(store: Store, record: dict[str, Any]) -> RunResult:
    tasks, settings = record["tasks"], from_dict(record["settings"])
    count, games = len(tasks), settings.evaluation.games
    scores = np.full((count, count, games), np.nan)
    for k, digest in enumerate(record["evaluations"]):
        for row in _rows(store, digest):
            scores[k, tasks.index(row["task"])] = row["scores"]
    single, random = np.full((count, games), np.nan), np.full((count, games), np.nan)
    for row in (row for digest in record["singles"] for row in _rows(store, digest)):
        single[tasks.index(row["task"])] = row["scores"]
    for row in _rows(store, record["random"]):
        random[tasks.index(row["task"])] = row["scores"]
    digests = [
        *record["teachers"],
        *record["generators"],
        *record["memories"],
        *record["evaluations"],
        *record["singles"],
    ]
    made = [digest for digest in digests if store.has(digest)]
    memories = [digest for digest in record["memories"] if store.has(digest)]
    return RunResult(
        record["condition"],
        record["sequence"],
        tasks,
        record["titles"],
        record["seed"],
        settings,
        len(memories),
        scores,
        single,
        random,
        [store.stage(d).document("memory")["bytes"] if store.has(d) else None for d in record["memories"]],
        _phases(store, record, settings),
        {digest: store.stage(digest).made().get("seconds", 0.0) for digest in made},
        len(digests) - len(made),
        record,
    )


def _phases(store: Store, record: dict[str, Any], settings: Settings) -> list[Phase]:
    """The first phase is the first teacher's, of whom the long-term agent is a copy."""
    first = Phase(record["tasks"][0], settings.short_term.observed_frames, _rows(store, record["teachers"][0]))
    later = [
        Phase(task, settings.long_term.observed_frames, _rows(store, digest))
        for task, digest in zip(record["tasks"][1:], record["memories"][1:], strict=False)
    ]
    return [first, *later]
