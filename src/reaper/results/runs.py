"""Reads a store back: what the stages of each run recorded, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json
from reaper.errors import DamagedArtefact
from reaper.results import metrics
from reaper.storage.records import ROLES, RunRecord
from reaper.storage.store import Store

Rows = list[dict[str, Any]]  # one per evaluation and task: task, agent steps, scores


@dataclass
class Phase:
    """Training on one task of the sequence, with the evaluations made during it."""

    task: str
    agent_steps: int  # length of the phase
    rows: Rows


@dataclass(frozen=True)
class LastWeights:
    """An agent that has the last weights of its training, since no window counted from which to choose the best."""

    task: str
    long_term: bool  # else it is the task's teacher
    by_score: bool  # what a window would have been chosen by; else by loss


@dataclass
class RunResult:
    """One condition on one sequence with one seed."""

    condition: Mapping[str, Any]
    sequence: str
    tasks: list[str]
    titles: list[str]
    seed: int
    settings: Settings
    learnt: int  # number of tasks consolidated so far
    scores: np.ndarray  # (tasks, tasks, episodes): after each task, on each task; NaN where not finished
    single: np.ndarray  # (tasks, episodes): each task's single-task DQN
    random: np.ndarray  # (tasks, episodes): random play
    memory_bytes: list[int | None]  # size of the long-term memory after each task; None where there is none yet
    compressed_bytes: list[int | None]  # the same if its raw items were compressed; None where that is not known
    stored_items: list[int | None]  # how many real items it holds; None where that is not known
    phases: list[Phase]
    last_weights: list[LastWeights]
    teacher_rows: list[Rows]  # of each task's single-task DQN, during its training
    seconds: dict[str, float]  # wall time by stage digest
    missing: int  # stages still to run
    record: RunRecord

    @property
    def name(self) -> str:
        return self.condition["name"]

    @property
    def first(self) -> int:
        """The first row of the score matrix that can be known: above 0 where a run continues from a memory."""
        return max(0, self.record.known_tasks - 1)

    @property
    def consolidates(self) -> bool:
        """Whether the condition learns tasks in sequence; `single` does not. A policy that was only evaluated counts as
        one that has learnt all of them before."""
        return bool(self.record.memories or self.record.policy)

    @cached_property
    def defined(self) -> np.ndarray:
        """For each task, whether its scores can be normalised: its single-task DQN is better than random play."""
        pairs = zip(self.single, self.random, strict=True)
        return np.array([metrics.better_than_random(single, random) for single, random in pairs])

    @property
    def no_better_than_random(self) -> np.ndarray:
        """For each task, whether its single-task DQN has been evaluated and is no better than random play."""
        return ~self.defined & ~np.isnan(self.single).any(axis=1) & ~np.isnan(self.random).any(axis=1)

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Mean scores (..., tasks) in normalised units; NaN for tasks where these are undefined."""
        values = metrics.normalised(scores, self.random.mean(axis=1), self.single.mean(axis=1))
        return np.where(self.defined, values, np.nan)

    @cached_property
    def matrix(self) -> np.ndarray:
        """Normalised scores: (tasks, tasks)."""
        return self.normalise(self.scores.mean(axis=2))

    @property
    def finished(self) -> bool:
        return self.missing == 0

    @property
    def final(self) -> np.ndarray:
        """Scores of the final agent, (tasks, episodes); those of a `single` run are its teachers'."""
        return self.scores[-1] if self.consolidates else self.single


def read_results(store: Store) -> list[RunResult]:
    """Every run in the store, finished or not."""
    return [read_run(store, record) for record in store.runs()]


def read_run(store: Store, record: RunRecord) -> RunResult:
    """Raises `DamagedArtefact` where the record and its stages contradict each other, although each file is intact."""
    try:
        return _read_run(store, record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        path = store.folder / "runs" / f"{record.name}.json"
        raise DamagedArtefact(path, f"and its stages do not fit together ({error!r})") from None


def _read_run(store: Store, record: RunRecord) -> RunResult:
    settings = from_json(record.settings)
    digests = stages_of(record)
    finished = [digest for digest in digests if store.has(digest)]
    memories = [digest for digest in record.memories if store.has(digest)]
    scores, single, random = _read_scores(store, record, settings.evaluation.episodes)
    return RunResult(
        condition=record.condition,
        sequence=record.sequence,
        tasks=list(record.tasks),
        titles=list(record.titles),
        seed=record.seed,
        settings=settings,
        learnt=_learnt(record, len(memories)),
        scores=scores,
        single=single,
        random=random,
        memory_bytes=_sizes(store, record, "bytes"),
        compressed_bytes=_sizes(store, record, "compressed_bytes"),
        stored_items=_sizes(store, record, "items"),
        phases=_phases(store, record, settings),
        last_weights=_last_weights(store, record),
        teacher_rows=[_rows(store, digest) for digest in record.teachers],
        seconds={digest: store.stage(digest).provenance().seconds for digest in finished},
        missing=len(digests) - len(finished),
        record=record,
    )


def _learnt(record: RunRecord, memories: int) -> int:
    if record.policy:
        return len(record.tasks)
    return memories + max(0, record.known_tasks - 1) if memories else 0


def _sizes(store: Store, record: RunRecord, name: str) -> list[int | None]:
    """Of the long-term memory after each task; a policy from elsewhere has none."""
    return [None] * len(record.tasks) if record.policy else [_size(store, digest, name) for digest in record.memories]


def _size(store: Store, digest: str, name: str) -> int | None:
    """A size of a long-term memory; None if it is not finished, or does not state this one."""
    size = store.stage(digest).document("memory").get(name) if store.has(digest) else None
    return None if size is None else int(size)


def _rows(store: Store, digest: str | None) -> Rows:
    return store.stage(digest).document("rows") if digest and store.has(digest) else []


def _read_scores(store: Store, record: RunRecord, episodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The final evaluations as `RunResult.scores`, `single` and `random`; NaN where a stage is not finished."""
    tasks = list(record.tasks)
    count = len(tasks)
    scores = np.full((count, count, episodes), np.nan)
    single, random = np.full((count, episodes), np.nan), np.full((count, episodes), np.nan)
    for k in range(len(record.evaluations)):
        for row in rows_after(record, k, lambda digest: _rows(store, digest)):
            scores[k, tasks.index(row["task"])] = row["scores"]
    for digest in record.singles:
        for row in _rows(store, digest):
            single[tasks.index(row["task"])] = row["scores"]
    for row in _rows(store, record.random):
        random[tasks.index(row["task"])] = row["scores"]
    return scores, single, random


def rows_after(record: RunRecord, k: int, rows_of: Callable[[str], Rows]) -> Rows:
    """The evaluation of the agent after task k on all tasks; `rows_of` reads the rows of a stage.

    One agent, one score: the first long-term agent plays as the first teacher does, so its score on the first task is
    that of `single`. Stores of version 0.2 and before hold another evaluation of it for each condition.
    """
    if record.policy:  # it does not change from task to task
        return [row for digest in record.evaluations for row in rows_of(digest)]
    rows = rows_of(record.evaluations[k])
    if k or record.known_tasks or record.first_is_distilled or not rows:
        return rows
    own = rows_of(record.singles[0])
    return [*own, *(row for row in rows if not own or row["task"] != record.tasks[0])]


def _last_weights(store: Store, record: RunRecord) -> list[LastWeights]:
    """Of the finished stages; those of version 0.2 did not record it."""
    found = []
    for role in ("teachers", "memories"):
        for task, digest in zip(record.tasks, record.of_role(role), strict=False):
            stage = store.stage(digest) if store.has(digest) else None
            if stage and stage.has("best_weights.json"):
                best = stage.document("best_weights")
                found += [] if best["windows"] else [LastWeights(task, role == "memories", best["by"] == "score")]
    return found


def stages_of(record: RunRecord) -> list[str]:
    """Digests of a run's own stages, without the evaluation of random play. Stages that made a memory the run
    continues from are not among them."""
    if record.policy:
        return list(record.evaluations)
    known = record.known_tasks
    begins = {role: max(0, known - 1) if role in ("memories", "evaluations") else known for role in ROLES}
    own = [digest for role in ROLES for digest in record.of_role(role)[begins[role] :]]
    return [*own, record.distilled] if record.distilled else own


def _phases(store: Store, record: RunRecord, settings: Settings) -> list[Phase]:
    """The first phase is that of the first teacher: the first long-term agent is a copy of it, or learns from it."""
    if record.policy:
        return [Phase(task, 0, []) for task in record.tasks]
    if known := record.known_tasks:
        before = [Phase(task, 0, []) for task in record.tasks[:known]]
        return [*before, *_later_phases(store, record, settings, known)]
    if record.first_is_distilled and record.memories:
        return _distilled_phases(store, record, settings)
    first = Phase(record.tasks[0], settings.short_term.agent_steps, _rows(store, record.teachers[0]))
    return [first, *_later_phases(store, record, settings, 1)]


def _distilled_phases(store: Store, record: RunRecord, settings: Settings) -> list[Phase]:
    """The first long-term agent was trained by the stage of its memory, or by one that all conditions share."""
    first, *later = _later_phases(store, record, settings, 0)
    if record.distilled:
        first = Phase(record.tasks[0], settings.long_term.agent_steps, _rows(store, record.distilled))
    return [first, *later]


def _later_phases(store: Store, record: RunRecord, settings: Settings, begin: int) -> list[Phase]:
    return [
        Phase(task, settings.long_term.agent_steps, _rows(store, digest))
        for task, digest in zip(record.tasks[begin:], record.memories[begin:], strict=False)
    ]
