"""The worker's side of the Ray engine: one stage as a Ray task, and its line to the driver."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from reaper.engines.local import keep_freed_memory
from reaper.errors import Stopped, UserError
from reaper.progress import Event, Progress, StageStarted
from reaper.storage.checkpoints import Interval
from reaper.storage.store import Store
from reaper.storage.transfer import (
    NO_CHECKPOINT,
    Numbered,
    Parcel,
    pack,
    pack_checkpoint,
    unpack_checkpoint,
    unpack_stage,
)
from reaper.study.stages import Stage, run_stage
from reaper.version import VERSION

SECONDS_BETWEEN_EVENTS = 0.5
SECONDS_BETWEEN_QUESTIONS = 0.3  # whether to stop
SECONDS_BETWEEN_LOOKS = 1.0
PATIENCE = 180.0  # seconds; file systems take so long at most to notice a dead machine, or a new file


@dataclass(frozen=True)
class Order:
    """What a worker is asked to do."""

    stage: Stage
    device: str
    threads: int
    every: Interval
    folder: str  # of the store, where it is shared
    header: Mapping[str, Any]  # of the store
    study: str  # names the folder on a node that works without the store
    others: bool  # whether other engines may be at work in the store
    version: str = VERSION


class Exchange:
    """Between the driver and its workers: events one way, the wish to stop the other. Runs as a Ray actor."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Event]] = []
        self._stopping = False

    def report(self, digest: str, event: Event) -> bool:
        self._events.append((digest, event))
        return self._stopping

    def collect(self) -> list[tuple[str, Event]]:
        events, self._events = self._events, []
        return events

    def ask_to_stop(self) -> None:
        self._stopping = True

    def stopping(self) -> bool:
        return self._stopping


class Line:
    """A worker's line to the exchange."""

    def __init__(self, exchange: Any, stage: Stage) -> None:
        self._exchange, self._digest = exchange, stage.digest
        self._answer: Any = None
        self._next, self._stopping = 0.0, False
        self.progress = Progress(lambda event: exchange.report.remote(self._digest, event), SECONDS_BETWEEN_EVENTS)

    def begin(self) -> None:
        """Waits until the driver can know of this worker, so that no result comes before it."""
        started = StageStarted(platform.node(), ray.get_runtime_context().get_node_id())
        self._stopping = bool(ray.get(self._exchange.report.remote(self._digest, started)))

    def end(self) -> None:
        """Waits until the driver can have all that was reported: a result must not overtake it."""
        with suppress(RayError):  # the driver is gone
            ray.get(self._exchange.stopping.remote())

    def stop(self) -> bool:
        """Never waits for an answer: a late one stops the stage a moment later."""
        now = time.monotonic()
        if self._stopping or now < self._next:
            return self._stopping
        self._next = now + SECONDS_BETWEEN_QUESTIONS
        if self._answer is None:
            self._answer = self._exchange.stopping.remote()
        elif ray.wait([self._answer], timeout=0)[0]:
            try:
                self._stopping = bool(ray.get(self._answer))
            except RayError:
                self._stopping = True  # the driver is gone
            self._answer = None
        return self._stopping


def work_shared(order: Order, exchange: Any) -> bool:
    """Runs a stage in a store that all nodes see. False: another engine is at work on it."""
    line = _begin(order, exchange)
    store = _open_shared(order)
    parents = order.stage.parents.values()
    if not patiently(lambda: all(store.has(parent) for parent in parents), line.stop):
        raise _unseen(order)
    return _run(order, store, line)


def work_fetched(order: Order, exchange: Any, checkpoint: Numbered, *parents: Parcel) -> tuple[bool, Parcel, Numbered]:
    """Runs a stage in a folder of this node, from parents that came with the order. Returns whether it is finished,
    and its files, or else its last checkpoint: it was asked to stop."""
    line, stage = _begin(order, exchange), order.stage
    store = Store(_private_folder() / order.study / stage.digest)
    store.make_rooms()
    for digest, parcel in zip(stage.parents.values(), parents, strict=True):
        unpack_stage(parcel, store, digest)
    if not store.has(stage.digest):
        unpack_checkpoint(checkpoint, store, stage.digest)
    try:
        _run(order, store, line)
    except Stopped:
        return False, {}, pack_checkpoint(store, stage.digest)
    parcel = pack(store.path_of(stage.digest))
    shutil.rmtree(store.folder, ignore_errors=True)
    return True, parcel, NO_CHECKPOINT


def patiently(done: Callable[[], bool], stop: Callable[[], bool]) -> bool:
    """Looks again and again whether something is done; False: patience has run out."""
    end = time.monotonic() + PATIENCE
    while not done():
        if stop():
            raise Stopped("stopped")
        if time.monotonic() > end:
            return False
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


def _begin(order: Order, exchange: Any) -> Line:
    if order.version != VERSION:
        raise UserError(f"{platform.node()} has reaper {VERSION}, this is {order.version}; install the same everywhere")
    torch.set_num_threads(order.threads)
    keep_freed_memory()
    line = Line(exchange, order.stage)
    line.begin()
    if line.stop():
        raise Stopped("stopped")
    return line


def _run(order: Order, store: Store, line: Line) -> bool:
    stage, device = order.stage, torch.device(order.device)

    def run() -> bool:
        return run_stage(stage, store, device, line.progress, order.every, line.stop)

    try:
        if order.others:
            return run()
        # Nobody else may be at work here, so whoever holds the stage is dead and the file system does not know it yet.
        if patiently(run, line.stop):
            return True
    finally:
        line.end()
    raise UserError(
        f"{stage.title}: somebody has held {store.stage_lock(stage.digest).path} for {PATIENCE / 60:g} minutes; if "
        "no other run writes there, delete that file and run the same command again"
    )


def _open_shared(order: Order) -> Store:
    if not (Path(order.folder) / "reaper.json").is_file():
        raise _unseen(order)
    store = Store.open(order.folder)
    if store.common != order.header:
        raise _unseen(order)
    return store


def _unseen(order: Order) -> UserError:
    return UserError(
        f"{platform.node()} does not see this run in {order.folder}; give an --out on a disk that all nodes share, or "
        "use --store fetch"
    )


def _private_folder() -> Path:
    """A folder for nodes without the store: it stays where it is, so that a retry on the same node finds the
    checkpoints of the attempt before."""
    folder = Path(tempfile.gettempdir()) / f"reaper-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UserError(f"{platform.node()}: {folder} can be written to by others; delete it")
    return folder
