"""The reading side of `reaper watch`: what a folder says about its runs, and nothing but the folder.

Clocks of other machines may be wrong, so none is compared where it can be avoided: a stage is alive if its sign of life
changes while one looks, by the clock of whoever looks. Only for what lies before the first look is the age of a file
taken from its time of change and the clock here. Nothing is written, so a folder may be read-only.
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
from reaper.monitoring.heartbeat import read_live
from reaper.storage.store import STAGE_LISTS, Store
from reaper.storage.verify import TITLES

SILENT_AFTER = 30.0  # seconds, in which a runner that lives gives fifteen signs of life
STATES = ("done", "running", "silent", "lost", "failed", "stopped", "waiting")
NUMBERS = ("done", "total", "per_second", "seconds_left", "score", "seconds_since_progress", "exit_code")
WORDS = ("title", "phase", "unit", "error", "earlier_error")
LARGEST = 1e15  # of numbers that are shown; anything beyond, and what is no number, is not one of ours


@dataclass
class StageLook:
    """One stage, as the folder shows it."""

    digest: str
    title: str
    step: tuple[str, bool]  # its role in a run and whether it is the first of it: equals take about as long
    state: str = "waiting"
    phase: str | None = None
    unit: str | None = None
    done: float | None = None
    total: float | None = None
    per_second: float | None = None
    seconds_left: float | None = None  # of the phase
    score: float | None = None
    seconds_since_progress: float | None = None
    silent_seconds: float | None = None
    error: str | None = None
    earlier_error: str | None = None
    exit_code: float | None = None


@dataclass
class RunLook:
    """One run: how far it is and what it scores."""

    name: str
    stages: int
    stages_done: int
    tasks: list[str]
    learnt: int  # tasks whose long-term memory is there
    scores: dict[str, float]  # the mean score on each task, after the last task that was evaluated
    scored_after: str | None


@dataclass
class Look:
    """What there is to see at one moment."""

    stages: list[StageLook] = field(default_factory=list)
    runs: list[RunLook] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds_left: float | None = None
    at_least: bool = False  # whether some stages are of a kind that none has finished yet

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(stage.state for stage in self.stages)
        return {state: found[state] for state in STATES}

    @property
    def finished(self) -> bool:
        return bool(self.stages) and all(stage.state == "done" for stage in self.stages)

    @property
    def unsure(self) -> bool:
        """Whether a second look would tell more: a sign of life seems old, by a clock that may be wrong."""
        return any(stage.state == "silent" for stage in self.stages)


@dataclass
class Sign:
    """A sign of life, and how old it was when it was first seen."""

    key: tuple[Any, ...]
    age: float
    seen: float  # by the clock of whoever looks

    def silent(self) -> float:
        return self.age + time.monotonic() - self.seen


class Watcher:
    """Looks at a folder again and again; what never changes is read once."""

    def __init__(self, out: Path) -> None:
        self.store = Store.open(out)
        self.signs: dict[str, Sign] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.seconds: dict[str, float] = {}

    def look(self) -> Look:
        if not (self.store.folder / "reaper.json").exists():
            raise StorageFailed(f"{self.store.folder} is gone")
        look = Look()
        records = [*self._records(look)]
        look.stages = [*{stage.digest: stage for record in records for stage in _stages_of(record)}.values()]
        for stage in look.stages:
            self._fill_in(stage, look)
        look.runs = [self._run(record, look) for record in records]
        look.seconds_left, look.at_least = self._left(look)
        return look

    def _records(self, look: Look) -> Iterator[dict[str, Any]]:
        for name in self.store.run_names():
            try:
                yield self.store.run(name)
            except DamagedArtefact as error:
                look.problems.append(f"runs/{name}.json {error.what}")

    def _fill_in(self, stage: StageLook, look: Look) -> None:
        path = self.store.folder / "live" / f"{stage.digest}.json"
        if self.store.has(stage.digest):
            stage.state = "done"
            self._read_finished(stage, look)
            return
        try:
            record = read_live(path)
        except ValueError as error:
            look.problems.append(f"live/{path.name} {error}")
            return
        if record is None:
            return
        _copy_known(record, stage)
        stage.state = record["state"] if record["state"] in STATES else "lost"
        if stage.state == "running":
            stage.silent_seconds = self._silent(path, record)
            if stage.silent_seconds > SILENT_AFTER:
                stage.state = "silent"

    def _silent(self, path: Path, record: dict[str, Any]) -> float:
        key = (record.get("runner"), record.get("beat"), record.get("written"))
        sign, now = self.signs.get(path.stem), time.monotonic()
        if sign is None:
            try:
                age = time.time() - path.stat().st_mtime
            except OSError:
                age = 0.0
            # From the future: the clocks differ, so it may be old as well. A second look tells.
            self.signs[path.stem] = Sign(key, age if age > -1.0 else SILENT_AFTER + 1, now)
        elif sign.key != key:
            self.signs[path.stem] = Sign(key, 0.0, now)
        return self.signs[path.stem].silent()

    def _read_finished(self, stage: StageLook, look: Look) -> None:
        if stage.digest in self.seconds:
            return
        try:
            artefact = self.store.stage(stage.digest)
            self.seconds[stage.digest] = float(artefact.made().get("seconds", 0.0))
            if stage.step[0] in ("evaluations", "singles"):
                self.rows[stage.digest] = artefact.document("rows")
        except (DamagedArtefact, TypeError, ValueError) as error:
            what = error.what if isinstance(error, DamagedArtefact) else "is not what a stage writes"
            look.problems.append(f"stages/{stage.digest} ({stage.title}) {what}; see `reaper verify`")

    def _run(self, record: dict[str, Any], look: Look) -> RunLook:
        digests = [*_digests(record)]
        done = sum(self.store.has(digest) for digest in digests)
        learnt = sum(self.store.has(digest) for digest in record["memories"] or record["teachers"])
        after, scores = None, {}
        titles = dict(zip(record["tasks"], record["titles"], strict=True))
        try:
            for place, digest in enumerate(record["evaluations"]):
                if rows := self.rows.get(digest):
                    after, scores = record["titles"][place], _means(rows, titles)
            if not record["evaluations"]:
                scores = _means([row for digest in record["singles"] for row in self.rows.get(digest, [])], titles)
        except (KeyError, TypeError, ValueError, AttributeError):
            look.problems.append(f"the evaluations of {record['name']} do not fit its record; see `reaper verify`")
        return RunLook(record["name"], len(digests), done, record["titles"], learnt, scores, after)

    def _left(self, look: Look) -> tuple[float | None, bool]:
        """About how long the rest takes, if as many stages run side by side as now: by what finished ones took."""
        took: dict[tuple[str, bool], list[float]] = {}
        for stage in look.stages:
            if stage.digest in self.seconds:
                took.setdefault(stage.step, []).append(self.seconds[stage.digest])
        open_ = [stage for stage in look.stages if stage.state != "done"]
        running = [stage for stage in open_ if stage.state == "running"]
        if not running:
            return (0.0 if look.finished else None), False
        left, at_least = 0.0, False
        for stage in open_:
            if (usual := took.get(stage.step)) is None:
                at_least = True
                left += stage.seconds_left or 0.0
            elif stage in running and stage.seconds_left is not None and stage.total:
                left += stage.seconds_left
            else:
                left += float(np.mean(usual))
        return left / len(running), at_least


def _copy_known(record: dict[str, Any], stage: StageLook) -> None:
    """What is of the kind that it should be: the file may come from anywhere."""
    for name in NUMBERS:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
            setattr(stage, name, value)
    for name in WORDS:
        if isinstance(record.get(name), str):
            setattr(stage, name, record[name])


def _digests(record: dict[str, Any]) -> Iterator[str]:
    yield from dict.fromkeys(digest for role in STAGE_LISTS for digest in record[role])
    if record["random"]:
        yield record["random"]


def _stages_of(record: dict[str, Any]) -> Iterator[StageLook]:
    names = {"condition": record["condition"]["name"], "seed": record["seed"]}
    for role in STAGE_LISTS:
        for place, digest in enumerate(record[role]):
            title = TITLES[role].format(**names, task=record["tasks"][place])
            yield StageLook(digest, title, (role, place == 0))
    if record["random"]:
        yield StageLook(record["random"], f"evaluation of random play (seed {record['seed']})", ("random", True))


def _means(rows: list[dict[str, Any]], titles: dict[str, str]) -> dict[str, float]:
    return {titles[row["task"]]: float(np.mean(row["scores"])) for row in rows}
