"""Results: what the stages of a store say about each run, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from reaper.config.presets import from_dict
from reaper.config.settings import Settings
from reaper.errors import DamagedArtefact
from reaper.results import metrics
from reaper.storage.store import STAGE_LISTS, Store, known_tasks


@dataclass
class Phase:
    """The training of one task into the long-term agent: evaluations on the tasks so far."""

    task: str
    agent_steps: int  # the length of the phase
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
    def first(self) -> int:
        """The first row of the score matrix that there can be: that of the memory a run goes on from."""
        return max(0, known_tasks(self.stages) - 1)

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
    return [read_run(store, record) for record in store.runs()]


def read_run(store: Store, record: dict[str, Any]) -> RunResult:
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
    count, games = len(tasks), settings.evaluation.episodes
    scores = np.full((count, count, games), np.nan)
    for k, digest in enumerate(record["evaluations"]):
        for row in _rows(store, digest):
            scores[k, tasks.index(row["task"])] = row["scores"]
    single, random = np.full((count, games), np.nan), np.full((count, games), np.nan)
    for row in (row for digest in record["singles"] for row in _rows(store, digest)):
        single[tasks.index(row["task"])] = row["scores"]
    for row in _rows(store, record["random"]):
        random[tasks.index(row["task"])] = row["scores"]
    digests = stages_of(record)
    made = [digest for digest in digests if store.has(digest)]
    memories = [digest for digest in record["memories"] if store.has(digest)]
    return RunResult(
        record["condition"],
        record["sequence"],
        tasks,
        record["titles"],
        record["seed"],
        settings,
        len(memories) + max(0, known_tasks(record) - 1) if memories else 0,
        scores,
        single,
        random,
        [store.stage(d).document("memory")["bytes"] if store.has(d) else None for d in record["memories"]],
        _phases(store, record, settings),
        {digest: store.stage(digest).made().get("seconds", 0.0) for digest in made},
        len(digests) - len(made),
        record,
    )


def stages_of(record: dict[str, Any]) -> list[str]:
    """The digests of the stages that a run is made of, but for random play; what made a memory that it goes on from is
    not among them."""
    known = known_tasks(record)
    begins = {role: max(0, known - 1) if role in ("memories", "evaluations") else known for role in STAGE_LISTS}
    return [digest for role in STAGE_LISTS for digest in record[role][begins[role] :]]


def _phases(store: Store, record: dict[str, Any], settings: Settings) -> list[Phase]:
    """The first phase is the first teacher's, of whom the long-term agent is a copy."""
    if known := known_tasks(record):
        before = [Phase(task, 0, []) for task in record["tasks"][:known]]
        return [*before, *_later_phases(store, record, settings, known)]
    first = Phase(record["tasks"][0], settings.short_term.agent_steps, _rows(store, record["teachers"][0]))
    return [first, *_later_phases(store, record, settings, 1)]


def _later_phases(store: Store, record: dict[str, Any], settings: Settings, begin: int) -> list[Phase]:
    return [
        Phase(task, settings.long_term.agent_steps, _rows(store, digest))
        for task, digest in zip(record["tasks"][begin:], record["memories"][begin:], strict=False)
    ]
