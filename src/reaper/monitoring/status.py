"""The status of the runs in a folder, read from the folder alone: the reading side of `reaper watch`.

Clocks of other machines may be wrong. So a stage counts as alive if its live file changes between two reads, timed by
the clock here; only before the second read is the age of the file taken from its modification time. Nothing is written,
so the folder may be read-only.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reaper.errors import DamagedArtefact, StorageFailed
from reaper.monitoring.live import FAILED, LOST, RUNNING, STOPPED, LiveRecord, read_live
from reaper.monitoring.time_left import StageTime, time_left
from reaper.results.runs import rows_after
from reaper.storage.records import ROLES, RunRecord
from reaper.storage.store import Store

DONE, SILENT, WAITING = "done", "silent", "waiting"
STATES = (DONE, RUNNING, SILENT, LOST, FAILED, STOPPED, WAITING)
SILENT_AFTER = 30.0  # seconds; a live process writes its files every two
# What `reaper watch --json` shows of a live file.
_LIVE_FIELDS = ("phase", "unit", "done", "total", "per_second", "seconds_left", "score", "seconds_since_progress")
_ERROR_FIELDS = ("error", "earlier_error", "exit_code")


@dataclass
class StageStatus:
    """The status of one stage."""

    digest: str
    title: str
    role: str  # in its run: a key of the run's record
    first: bool  # whether it is the first with this role; the first memory takes less time than later ones
    live: LiveRecord  # empty unless the stage has a live file
    state: str = WAITING
    silent_seconds: float | None = None  # since its live file changed

    def to_json(self) -> dict[str, Any]:
        about = {"digest": self.digest, "title": self.title, "state": self.state}
        live = {name: getattr(self.live, name) for name in (*_LIVE_FIELDS, *_ERROR_FIELDS)}
        return {**about, **live, "silent_seconds": self.silent_seconds}


@dataclass
class RunStatus:
    """How far a run is and what it scores."""

    name: str
    stages: int
    stages_done: int
    tasks: list[str]
    learnt: int  # number of tasks whose long-term memory is finished
    scores: dict[str, float]  # mean score per task, after the last evaluated task
    scored_after: str | None


@dataclass
class FolderStatus:
    """The status of all runs in a folder at one moment."""

    stages: list[StageStatus] = field(default_factory=list)
    runs: list[RunStatus] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds_left: float | None = None
    at_least: bool = False  # no stage like some of the unfinished ones has finished yet

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(stage.state for stage in self.stages)
        return {state: found[state] for state in STATES}

    @property
    def finished(self) -> bool:
        return bool(self.stages) and all(stage.state == DONE for stage in self.stages)

    @property
    def unsure(self) -> bool:
        """Whether a second read may tell more: a live file seems old, by a clock that may be wrong."""
        return any(stage.state == SILENT for stage in self.stages)


@dataclass
class _LastChange:
    """The version of a live file, and how old it was when it was first read."""

    version: tuple[Any, ...]
    age: float
    read_at: float  # by our monotonic clock

    def seconds(self) -> float:
        return self.age + time.monotonic() - self.read_at


class StatusReader:
    """Reads the status of a folder again and again; what never changes is read once."""

    def __init__(self, out: Path) -> None:
        self._store = Store.open(out)
        self._last_changes: dict[str, _LastChange] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}  # evaluation -> its rows
        self._seconds: dict[str, float] = {}  # finished stage -> its wall time

    def read(self) -> FolderStatus:
        if not (self._store.folder / "reaper.json").exists():
            raise StorageFailed(f"{self._store.folder} is gone")
        status = FolderStatus()
        records = [*self._records(status)]
        status.stages = [*{stage.digest: stage for record in records for stage in _stages_of(record)}.values()]
        for stage in status.stages:
            self._read_stage(stage, status)
        status.runs = [self._read_run(record, status) for record in records]
        if status.finished:
            status.seconds_left = 0.0
        else:
            status.seconds_left, status.at_least = time_left(map(self._stage_time, status.stages))
        return status

    def _records(self, status: FolderStatus) -> Iterator[RunRecord]:
        for name in self._store.run_names():
            try:
                yield self._store.run(name)
            except DamagedArtefact as error:
                status.problems.append(f"runs/{name}.json {error.what}")

    def _read_stage(self, stage: StageStatus, status: FolderStatus) -> None:
        path = self._store.folder / "live" / f"{stage.digest}.json"
        if self._store.has(stage.digest):
            stage.state = DONE
            self._read_finished(stage, status)
            return
        try:
            record = read_live(path)
        except ValueError as error:
            status.problems.append(f"live/{path.name} {error}")
            return
        if record is None:
            return
        stage.live, stage.title = record, record.title or stage.title
        stage.state = record.state if record.state in STATES else LOST
        if stage.state == RUNNING:
            stage.silent_seconds = self._seconds_since_change(path, record)
            if stage.silent_seconds > SILENT_AFTER:
                stage.state = SILENT

    def _seconds_since_change(self, path: Path, record: LiveRecord) -> float:
        version = (record.runner, record.beat, record.written)
        last, now = self._last_changes.get(path.stem), time.monotonic()
        if last is None:
            try:
                age = time.time() - path.stat().st_mtime
            except OSError:
                age = 0.0
            # A time in the future means that the clocks differ, so the file may be old as well. A second read tells.
            last = _LastChange(version, age if age > -1.0 else SILENT_AFTER + 1, now)
        elif last.version != version:
            last = _LastChange(version, 0.0, now)
        self._last_changes[path.stem] = last
        return last.seconds()

    def _read_finished(self, stage: StageStatus, status: FolderStatus) -> None:
        if stage.digest in self._seconds:
            return
        try:
            artefact = self._store.stage(stage.digest)
            self._seconds[stage.digest] = artefact.provenance().seconds
            if stage.role in ("evaluations", "singles"):
                self._rows[stage.digest] = artefact.document("rows")
        except (DamagedArtefact, TypeError, ValueError) as error:
            what = error.what if isinstance(error, DamagedArtefact) else "is not what a stage writes"
            status.problems.append(f"stages/{stage.digest} ({stage.title}) {what}; see `reaper verify`")

    def _read_run(self, record: RunRecord, status: FolderStatus) -> RunStatus:
        done = sum(self._store.has(digest) for digest in record.stages)
        learnt = sum(self._store.has(digest) for digest in record.memories or record.teachers)
        scored_after, scores = None, {}
        titles = dict(zip(record.tasks, record.titles, strict=True))
        try:
            for k, title in enumerate(record.titles if record.evaluations else ()):
                if rows := rows_after(record, k, lambda digest: self._rows.get(digest, [])):
                    scored_after, scores = title, _mean_scores(rows, titles)
            if not record.evaluations:
                rows = [row for digest in record.singles for row in self._rows.get(digest, [])]
                scores = _mean_scores(rows, titles)
        except (KeyError, TypeError, ValueError, AttributeError):
            status.problems.append(f"the evaluations of {record.name} do not fit its record; see `reaper verify`")
        return RunStatus(
            name=record.name,
            stages=len(record.stages),
            stages_done=done,
            tasks=list(record.titles),
            learnt=learnt,
            scores=scores,
            scored_after=scored_after,
        )

    def _stage_time(self, stage: StageStatus) -> StageTime:
        known = stage.state == RUNNING and bool(stage.live.total)
        return StageTime(
            kind=(stage.role, stage.first),
            running=stage.state == RUNNING,
            done=stage.state == DONE,
            seconds=self._seconds.get(stage.digest),
            seconds_left=stage.live.seconds_left if known else None,
        )


def _stages_of(record: RunRecord) -> Iterator[StageStatus]:
    roles = {digest: (role, index == 0) for role in ROLES for index, digest in enumerate(record.of_role(role))}
    for digest, stage in record.stages.items():
        role, first = roles.get(digest, ("random" if digest == record.random else "distilled", True))
        yield StageStatus(digest, stage.title, role, first, LiveRecord(digest, WAITING))


def _mean_scores(rows: list[dict[str, Any]], titles: dict[str, str]) -> dict[str, float]:
    return {titles[row["task"]]: float(np.mean(row["scores"])) for row in rows}
