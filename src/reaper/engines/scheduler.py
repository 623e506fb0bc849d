"""Which stages are still to run, which of them are ready, and what a failed stage means for the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

from reaper.engines.base import Listener
from reaper.errors import Diverged, EnvironmentFailed, ReaperError, Stopped
from reaper.progress import StageCached, StageFailed, StageFinished, StageHeld, StageStopped
from reaper.storage.store import Store
from reaper.study.stages import Stage

SECONDS_BETWEEN_POLLS = 1.0  # of a stage that another process runs


def critical_path(stages: Sequence[Stage]) -> dict[str, int]:
    """The length of the longest chain of stages that waits for each one; the longest should start first."""
    length: dict[str, int] = {stage.digest: 0 for stage in stages}
    for stage in reversed(stages):  # parents come before their children
        for parent in stage.parents.values():
            if parent in length:
                length[parent] = max(length[parent], length[stage.digest] + 1)
    return length


class Scheduler:
    """Hands out stages in the order of their critical paths and keeps track of failures."""

    def __init__(self, stages: Sequence[Stage], store: Store, listener: Listener) -> None:
        self.store, self.listener = store, listener
        self.waiting: list[Stage] = []
        for stage in stages:
            if store.has(stage.digest):
                store.stage(stage.digest).check()  # never build on a damaged stage
                listener(stage, StageCached())
            else:
                self.waiting.append(stage)
        self.path_length = critical_path(stages)
        self.waiting.sort(key=self._longest_path_first)
        self.not_before: dict[str, float] = {}  # digest -> when to look again at a stage that another process runs
        self.failure: Exception | None = None  # of the first stage that failed on its own

    def _longest_path_first(self, stage: Stage) -> int:
        return -self.path_length[stage.digest]

    def take(self) -> Stage | None:
        """A stage whose parents are finished and that no other process runs."""
        self.store.check_present()
        now = time.monotonic()
        for stage in list(self.waiting):
            if self.store.has(stage.digest):  # finished by another process that shares the store
                self.waiting.remove(stage)
                self.listener(stage, StageCached())
            elif self.not_before.get(stage.digest, now) <= now and self._ready(stage):
                self.waiting.remove(stage)
                return stage
        return None

    def _ready(self, stage: Stage) -> bool:
        return all(self.store.has(parent) for parent in stage.parents.values())

    def put_back(self, stage: Stage) -> None:
        """Another process runs it: look again later."""
        self.waiting.append(stage)
        self.not_before[stage.digest] = time.monotonic() + SECONDS_BETWEEN_POLLS
        self.listener(stage, StageHeld())

    def finished(self, stage: Stage) -> None:
        self.listener(stage, StageFinished(self.store.stage(stage.digest).provenance().to_json()))

    def failed(self, stage: Stage, error: BaseException) -> bool:
        """Reports a stage that ended unfinished; returns whether the others can continue without it.

        They can if it diverged, or if its environment or its method has a bug. A request to stop, a full disk or a
        user's mistake stops all.
        """
        concerns_one = isinstance(error, Diverged | EnvironmentFailed)
        concerns_all = isinstance(error, BrokenProcessPool | ReaperError) and not concerns_one
        own = error if isinstance(error, Exception) and not concerns_all else None
        text, exit_code = describe_error(error)
        if isinstance(error, Stopped | KeyboardInterrupt):
            self.listener(stage, StageStopped(text, exit_code))
        else:
            self.listener(stage, StageFailed(text, exit_code, others_continue=own is not None))
        if own is None:
            return False
        self.failure = self.failure or own
        self._drop_descendants(stage)
        return True

    def _drop_descendants(self, stage: Stage) -> None:
        lost = {stage.digest}
        for other in sorted(self.waiting, key=self._longest_path_first):  # parents first
            if lost & set(other.parents.values()):
                lost.add(other.digest)
                self.waiting.remove(other)


def describe_error(error: BaseException) -> tuple[str, int]:
    """An error's message in one line, and its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped at once", 130
    if isinstance(error, BrokenProcessPool):
        error = first_cause(None, error)
    if isinstance(error, ReaperError):
        return str(error), error.exit_code
    return " ".join(f"{type(error).__name__}: {error}".split())[:300], 1


def first_cause(old: ReaperError | None, new: Exception) -> ReaperError:
    """The error to show to the user: the first cause, not the stops that follow from it."""
    if old is not None and not isinstance(old, Stopped):
        return old
    if isinstance(new, ReaperError):
        return new
    if old is not None:
        return old  # the worker was told to stop before its signal handler was installed
    return ReaperError(
        "a worker process was killed, probably because memory ran out; run the same command with fewer --workers: it "
        "resumes from the last checkpoints"
    )
