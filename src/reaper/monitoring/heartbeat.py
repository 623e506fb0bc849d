"""The heartbeat: keeps the live file of every running stage up to date.

The process that runs a stage rewrites its live file every two seconds, whether there is news or not. So a file that no
longer changes means that the process is gone, and not that its stage is busy with a long evaluation. The file is
removed when the stage is finished.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from reaper.monitoring.live import FAILED, LOST, RUNNING, STOPPED, LiveRecord, read_live
from reaper.progress import (
    Event,
    PhaseProgress,
    Rate,
    StageCached,
    StageFailed,
    StageFinished,
    StageHeld,
    StageStarted,
    StageStopped,
)
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage

SECONDS_BETWEEN_BEATS = 2.0
LOST_ERROR = "its process ended without a report: it was killed, or its machine went down"


@dataclass
class _RunningStage:
    """The state of one running stage."""

    record: LiveRecord
    rate: Rate = field(default_factory=Rate)
    last_progress: float = 0.0  # by the monotonic clock of this process

    def update(self, event: PhaseProgress) -> None:
        per_second, seconds_left = self.rate.update(event)
        self.last_progress = time.monotonic()
        self.record = replace(
            self.record,
            phase=event.phase,
            unit=event.unit,
            done=event.done,
            total=event.total,
            score=event.score,
            per_second=round(per_second, 2),
            seconds_left=None if seconds_left is None else round(seconds_left, 1),
        )

    def current(self) -> LiveRecord:
        return replace(self.record, seconds_since_progress=round(time.monotonic() - self.last_progress, 1))


class Heartbeat:
    """A listener that writes live files, and a context manager that keeps writing them. Its disk errors never stop a
    stage; the first one is passed to `warn`."""

    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self.folder = store.folder / "live"
        self.runner = secrets.token_hex(4)  # tells processes apart without naming machines
        self._store, self._warn = store, warn
        self._running: dict[str, _RunningStage] = {}
        self._ended: set[str] = set()  # stages whose late events are ignored
        self._beats, self._problem, self._warned = 0, "", False
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._beat_until_closed, name="heartbeat", daemon=True)

    def __call__(self, stage: Stage, event: Event) -> None:
        with self._lock:
            match event:
                case PhaseProgress():
                    self._update(stage, event)
                case StageStarted():
                    self._ended.discard(stage.digest)  # not written yet: another process may turn out to hold it
                case StageFailed():
                    self._end(stage, FAILED, event)
                case StageStopped():
                    self._end(stage, STOPPED, event)
                case StageFinished() | StageCached():
                    self._forget(stage)
                    self._remove(stage.digest)
                case StageHeld():  # the file is the other process's
                    self._forget(stage)
        if self._problem and not self._warned:  # from here, and not from the heartbeat's thread
            self._warned = True
            self._warn(self._problem)

    def _update(self, stage: Stage, event: PhaseProgress) -> None:
        if stage.digest in self._ended:
            return
        if running := self._running.get(stage.digest):
            running.update(event)  # written with the next beat
            return
        running = self._running[stage.digest] = self._new(stage)
        running.update(event)
        self._write(running.current())

    def _end(self, stage: Stage, state: str, event: StageFailed | StageStopped) -> None:
        running = self._running.get(stage.digest) or self._new(stage)
        self._forget(stage)
        self._write(replace(running.current(), state=state, error=event.error, exit_code=event.exit_code))

    def _forget(self, stage: Stage) -> None:
        self._running.pop(stage.digest, None)
        self._ended.add(stage.digest)

    def _new(self, stage: Stage) -> _RunningStage:
        earlier: LiveRecord | None = None
        with suppress(ValueError):
            earlier = read_live(self.folder / f"{stage.digest}.json")
        error = earlier and (earlier.error if earlier.state == FAILED else earlier.earlier_error)
        record = LiveRecord(stage.digest, RUNNING, title=stage.title, kind=stage.kind, earlier_error=error)
        return _RunningStage(record, last_progress=time.monotonic())

    def beat(self) -> None:
        """Rewrites the live file of every running stage."""
        with self._lock:
            self._beats += 1
            for running in self._running.values():
                self._write(running.current())

    def _beat_until_closed(self) -> None:
        while not self._closing.wait(SECONDS_BETWEEN_BEATS):
            self.beat()

    def mark_lost(self) -> None:
        """No other process uses this folder, so a stage recorded as running was left by a process that is gone."""
        for path in self.folder.glob("*.json"):
            if self._store.has(path.stem):
                self._remove(path.stem)
                continue
            with suppress(ValueError):
                record = read_live(path)
                if record and record.state == RUNNING:
                    self._write(replace(record, state=LOST, error=LOST_ERROR))

    def _write(self, record: LiveRecord) -> None:
        record = replace(record, runner=self.runner, beat=self._beats, written=round(time.time(), 3))
        part = self.folder / f".{record.digest}.{self.runner}.part"
        try:
            self.folder.mkdir(exist_ok=True)  # not its parents: an output folder that was deleted stays deleted
            part.write_text(json.dumps(record.to_json()))
            os.replace(part, self.folder / f"{record.digest}.json")
        except OSError as error:
            self._problem = (
                self._problem or f"cannot write {self.folder}: {error.strerror}; `reaper watch` will not see this run"
            )

    def _remove(self, digest: str) -> None:
        with suppress(OSError):
            (self.folder / f"{digest}.json").unlink(missing_ok=True)

    def __enter__(self) -> Heartbeat:
        if not self._store.shared:
            self.mark_lost()
        self._thread.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The process stops running stages: those that have not ended by themselves are recorded as stopped."""
        self._closing.set()
        self._thread.join(SECONDS_BETWEEN_BEATS)
        reason = "its run ended" if error is None else " ".join(str(error).split())[:300]
        with self._lock:
            for running in self._running.values():
                self._write(replace(running.current(), state=STOPPED, error=reason))
            self._running.clear()
