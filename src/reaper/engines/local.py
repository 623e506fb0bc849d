"""The local engine: runs stages on this machine, one after another or in several processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from reaper.engines.base import Engine, Listener
from reaper.engines.resources import Resources, keep_freed_memory
from reaper.engines.scheduler import SECONDS_BETWEEN_POLLS, Scheduler, first_cause
from reaper.engines.signals import Stop, listen_as_worker
from reaper.errors import ReaperError, Stopped
from reaper.progress import Progress, StageStarted
from reaper.storage.store import Store
from reaper.study.stage_run import StageResources
from reaper.study.stages import Stage, run_stage
from reaper.system import start_worker

SECONDS_BETWEEN_EVENTS = 0.2


@dataclass(frozen=True)
class LocalEngine(Engine):
    """Stages run in this process, or with more than one worker in processes of their own."""

    def run(
        self, stages: Sequence[Stage], *, store: Store, resources: Resources, stop: Stop, listener: Listener
    ) -> None:
        scheduler = Scheduler(stages, store, listener)
        if resources.workers == 1 or len(scheduler.waiting) <= 1:
            _run_in_this_process(scheduler, resources, stop)
        else:
            _WorkerPool(scheduler, resources, stop).run()
        if scheduler.failure:
            raise scheduler.failure


def _run_in_this_process(scheduler: Scheduler, resources: Resources, stop: Stop) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(resources.threads)
    keep_freed_memory()
    try:
        while scheduler.waiting:
            if stop():
                raise Stopped("stopped")
            stage = scheduler.take()
            if stage is None:
                time.sleep(SECONDS_BETWEEN_POLLS)
            else:
                _run_one(stage, scheduler, resources.for_stage(), stop)
    finally:
        torch.set_num_threads(before)


def _run_one(stage: Stage, scheduler: Scheduler, resources: StageResources, stop: Stop) -> None:
    scheduler.listener(stage, StageStarted())
    progress = Progress(lambda event: scheduler.listener(stage, event))
    try:
        done = run_stage(stage, scheduler.store, resources=resources, progress=progress, stop=stop)
    except BaseException as error:
        if not scheduler.failed(stage, error):
            raise
        return
    scheduler.finished(stage) if done else scheduler.put_back(stage)


class _WorkerPool:
    """Runs stages in several processes; this one schedules them and passes their events on."""

    def __init__(self, scheduler: Scheduler, resources: Resources, stop: Stop) -> None:
        self.scheduler, self.resources, self.stop = scheduler, resources, stop
        # Stages at the same time leave no core idle: a separate process for evaluations would starve.
        self.stage_resources = replace(resources, concurrent_eval=False).for_stage()
        processes = multiprocessing.get_context("spawn")
        self.events = processes.Queue()
        self.by_digest = {stage.digest: stage for stage in scheduler.waiting}
        self.running: dict[Future[bool], Stage] = {}
        self.failure: ReaperError | None = None  # that stops all stages
        # A worker first watches this process. To name `_begin_worker` here would import this module, and torch, before.
        begin = (os.getpid(), f"{__name__}:{_begin_worker.__name__}", self.events, resources.threads)
        self.pool = ProcessPoolExecutor(resources.workers, processes, initializer=start_worker, initargs=begin)

    def run(self) -> None:
        try:
            while self.running or (self.scheduler.waiting and not self.failure):
                self._submit_ready()
                self._collect()
                if self.stop() and not self.failure:
                    self.failure = Stopped("stopped")
                if self.failure:
                    self._ask_workers_to_stop()
            if self.failure:
                raise self.failure
        except BaseException:
            for process in (self.pool._processes or {}).values():
                process.kill()  # a second interrupt, or a bug; checkpoints are written atomically
            raise
        finally:
            self.pool.shutdown(cancel_futures=True)

    def _submit_ready(self) -> None:
        while not self.failure and len(self.running) < self.resources.workers and (stage := self.scheduler.take()):
            spec, folder = json.dumps(stage.spec), str(self.scheduler.store.folder)
            future = self.pool.submit(_work, spec, stage.title, folder, resources=self.stage_resources)
            self.running[future] = stage
            self.scheduler.listener(stage, StageStarted())

    def _collect(self) -> None:
        """Waits a moment for results, and passes on events and results."""
        done, _ = wait(self.running, timeout=SECONDS_BETWEEN_EVENTS, return_when=FIRST_COMPLETED)
        if not self.running:
            time.sleep(SECONDS_BETWEEN_EVENTS)
        self._forward_events()
        asked_to_stop = self.failure is not None  # such workers may die before they have installed a handler
        for future in done:
            stage = self.running.pop(future)
            try:
                self.scheduler.finished(stage) if future.result() else self.scheduler.put_back(stage)
            except Exception as error:
                killed = isinstance(error, BrokenProcessPool) and asked_to_stop
                if not self.scheduler.failed(stage, Stopped("stopped") if killed else error):
                    self.failure = first_cause(self.failure, error)

    def _forward_events(self) -> None:
        while True:
            try:
                digest, event = self.events.get_nowait()
            except queue.Empty:
                return
            self.scheduler.listener(self.by_digest[digest], event)

    def _ask_workers_to_stop(self) -> None:
        """Asks every worker to save its state and stop; asking twice does no harm."""
        for process in list((self.pool._processes or {}).values()):
            process.terminate()


# -- in a worker process

_events: Any = None  # the queue to the parent process
_stop: Stop = Stop()


def _begin_worker(events: Any, threads: int) -> None:
    global _events, _stop
    _events, _stop = events, listen_as_worker()
    torch.set_num_threads(threads)
    keep_freed_memory()


def _work(spec: str, title: str, folder: str, resources: StageResources) -> bool:
    stage = Stage(json.loads(spec), title)
    progress = Progress(lambda event: _events.put((stage.digest, event)))
    return run_stage(stage, Store(Path(folder)), resources=resources, progress=progress, stop=_stop)
