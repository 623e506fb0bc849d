"""The local engine: runs ready stages side by side on one machine, in processes of their own."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from reaper.engines import Cluster
from reaper.engines.signals import Stop, listen_as_worker
from reaper.errors import Diverged, ReaperError, Stopped
from reaper.learning.evaluation.evaluator import AT_ONCE, TESTS
from reaper.progress import (
    Event,
    Progress,
    StageCached,
    StageFailed,
    StageFinished,
    StageHeld,
    StageStarted,
    StageStopped,
)
from reaper.storage.checkpoints import Interval
from reaper.storage.store import Store
from reaper.study.stages import Stage, run_stage

Listener = Callable[[Stage, Event], None]  # told of every event of every stage
SECONDS_BETWEEN_LOOKS = 1.0  # at a stage that another process holds


@dataclass(frozen=True)
class Resources:
    """What stages are run with."""

    device: str = "cpu"
    workers: int = 1
    threads: int = 1
    every: Interval = field(default_factory=Interval)
    cluster: Cluster | None = None  # None: this machine


def critical_path(stages: Sequence[Stage]) -> dict[str, int]:
    """How many stages wait on each one, in a row: the longest chains should start first."""
    height: dict[str, int] = {stage.digest: 0 for stage in stages}
    for stage in reversed(stages):  # parents come before their children
        for parent in stage.parents.values():
            if parent in height:
                height[parent] = max(height[parent], height[stage.digest] + 1)
    return height


def keep_freed_memory() -> None:
    """Tells glibc to keep freed blocks for the next update instead of returning them to the system, whose page faults
    would take up to a third of the time. Elsewhere nothing happens."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD: blocks up to 64 MiB come from the heap ...
        libc.mallopt(-1, 512 << 20)  # M_TRIM_THRESHOLD: ... whose free end is kept
    except (OSError, AttributeError):
        return


def default_workers(small: bool) -> int:
    """Small networks gain nothing from a second thread, so every core gets a stage of its own; large ones share."""
    return len(os.sched_getaffinity(0)) if small else 1


class Scheduler:
    """Which stages are still to be run, and which of them are ready."""

    def __init__(self, stages: Sequence[Stage], store: Store, listen: Listener) -> None:
        self.store, self.listen = store, listen
        self.waiting: list[Stage] = []
        for stage in stages:
            if store.has(stage.digest):
                store.stage(stage.digest).check()  # damaged work is never built upon
                listen(stage, StageCached())
            else:
                self.waiting.append(stage)
        self.height = critical_path(stages)
        self.waiting.sort(key=lambda stage: -self.height[stage.digest])
        self.not_before: dict[str, float] = {}
        self.failure: Exception | None = None  # the first one of a single stage

    def take(self) -> Stage | None:
        """A stage whose parents are finished, unless another process holds it."""
        self.store.check_present()
        now = time.monotonic()
        for stage in list(self.waiting):
            if self.store.has(stage.digest):  # by another process that shares the store
                self.waiting.remove(stage)
                self.listen(stage, StageCached())
            elif self.not_before.get(stage.digest, now) <= now and self.ready(stage):
                self.waiting.remove(stage)
                return stage
        return None

    def ready(self, stage: Stage) -> bool:
        return all(self.store.has(parent) for parent in stage.parents.values())

    def put_back(self, stage: Stage) -> None:
        """Another process is at work on it: look again later."""
        self.waiting.append(stage)
        self.not_before[stage.digest] = time.monotonic() + SECONDS_BETWEEN_LOOKS
        self.listen(stage, StageHeld())

    def finished(self, stage: Stage) -> None:
        self.listen(stage, StageFinished(self.store.stage(stage.digest).made()))

    def passes_over(self, stage: Stage, error: BaseException) -> bool:
        """A stage ended before it was finished: whether the others can go on without it. They do where its numbers went
        wrong, or its method has a bug; a wish to stop, a full disk, or what a user has to put right concerns all."""
        of_all = isinstance(error, BrokenProcessPool | ReaperError) and not isinstance(error, Diverged)
        own = error if isinstance(error, Exception) and not of_all else None
        text, exit_code = in_one_line(error)
        if isinstance(error, Stopped | KeyboardInterrupt):
            self.listen(stage, StageStopped(text, exit_code))
        else:
            self.listen(stage, StageFailed(text, exit_code, others_continue=own is not None))
        if own is None:
            return False
        self.failure = self.failure or own
        lost = {stage.digest}
        for other in sorted(self.waiting, key=lambda other: -self.height[other.digest]):  # parents first
            if lost & set(other.parents.values()):
                lost.add(other.digest)
                self.waiting.remove(other)
        return True


def in_one_line(error: BaseException) -> tuple[str, int]:
    """An error's message in one line, and its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped at once", 130
    if isinstance(error, BrokenProcessPool):
        error = worse(None, error)
    if isinstance(error, ReaperError):
        return str(error), error.exit_code
    return " ".join(f"{type(error).__name__}: {error}".split())[:300], 1


def run_stages(stages: Sequence[Stage], store: Store, resources: Resources, stop: Stop, listen: Listener) -> None:
    """Runs every stage that is not in the store yet; `stages` are in an order in which parents come first."""
    scheduler = Scheduler(stages, store, listen)
    if resources.workers == 1 or len(scheduler.waiting) <= 1:
        _run_here(scheduler, resources, stop)
    else:
        _run_side_by_side(scheduler, resources, stop)


def _run_here(scheduler: Scheduler, resources: Resources, stop: Stop) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(resources.threads)
    keep_freed_memory()
    try:
        while scheduler.waiting:
            if stop():
                raise Stopped("stopped")
            stage = scheduler.take()
            if stage is None:
                time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            scheduler.listen(stage, StageStarted())
            progress = Progress(lambda event, s=stage: scheduler.listen(s, event))
            try:
                done = run_stage(
                    stage, scheduler.store, torch.device(resources.device), progress, resources.every, stop
                )
            except BaseException as error:
                if not scheduler.passes_over(stage, error):
                    raise
                continue
            scheduler.finished(stage) if done else scheduler.put_back(stage)
    finally:
        torch.set_num_threads(before)
    if scheduler.failure:
        raise scheduler.failure


_events: Any = None  # a worker process's way to its parent
_stop: Stop = Stop()


def _begin_worker(events: Any, threads: int) -> None:
    global _events, _stop
    _events, _stop = events, listen_as_worker()
    os.environ.setdefault(TESTS, AT_ONCE)  # stages side by side leave no core idle: tests beside them would starve
    torch.set_num_threads(threads)
    keep_freed_memory()


def _work(spec: str, title: str, folder: str, device: str, every: Interval) -> bool:
    stage = Stage(json.loads(spec), title)
    progress = Progress(lambda event: _events.put((stage.digest, event)))
    return run_stage(stage, Store(Path(folder)), torch.device(device), progress, every, _stop)


def _run_side_by_side(scheduler: Scheduler, resources: Resources, stop: Stop) -> None:
    processes = multiprocessing.get_context("spawn")
    events = processes.Queue()
    by_digest = {stage.digest: stage for stage in scheduler.waiting}
    running: dict[Future[bool], Stage] = {}
    failure: ReaperError | None = None
    pool = ProcessPoolExecutor(
        resources.workers, processes, initializer=_begin_worker, initargs=(events, resources.threads)
    )
    try:
        while running or (scheduler.waiting and not failure):
            while not failure and len(running) < resources.workers and (stage := scheduler.take()):
                words = (
                    json.dumps(stage.spec),
                    stage.title,
                    str(scheduler.store.folder),
                    resources.device,
                    resources.every,
                )
                running[pool.submit(_work, *words)] = stage
                scheduler.listen(stage, StageStarted())
            done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            if not running:
                time.sleep(0.2)
            _pass_on(events, by_digest, scheduler.listen)
            asked = failure is not None  # workers that were asked to stop may break off before they listen
            for future in done:
                stage = running.pop(future)
                try:
                    scheduler.finished(stage) if future.result() else scheduler.put_back(stage)
                except Exception as error:
                    broken = isinstance(error, BrokenProcessPool)
                    if not scheduler.passes_over(stage, Stopped("stopped") if broken and asked else error):
                        failure = worse(failure, error)
            if stop() and not failure:
                failure = Stopped("stopped")
            if failure:
                _tell_workers(pool)
        if failure:
            raise failure
    except BaseException:
        for process in (pool._processes or {}).values():
            process.kill()  # a second interrupt, or a bug; checkpoints are whole or not there
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    if scheduler.failure:
        raise scheduler.failure


def worse(old: ReaperError | None, new: Exception) -> ReaperError:
    """What to tell the user: the first cause, and not the stops that followed from it."""
    if old is not None and not isinstance(old, Stopped):
        return old
    if isinstance(new, ReaperError):
        return new
    if old is not None:
        return old  # asked to stop before it could listen
    return ReaperError(
        "a worker process was killed, most likely for want of memory; run the same command again with fewer --workers: "
        "it goes on from the last checkpoints"
    )


def _tell_workers(pool: ProcessPoolExecutor) -> None:
    """Asks every worker to save its state and stop; asking twice does no harm."""
    for process in list((pool._processes or {}).values()):
        process.terminate()


def _pass_on(events: Any, by_digest: dict[str, Stage], listen: Listener) -> None:
    while True:
        try:
            digest, event = events.get_nowait()
        except queue.Empty:
            return
        listen(by_digest[digest], event)
