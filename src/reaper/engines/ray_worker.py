"""The worker's side of the Ray engine: one stage as a Ray task, and its connection to the driver."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from reaper.engines.resources import keep_freed_memory
from reaper.errors import Stopped, UserError
from reaper.progress import Event, Progress, StageStarted
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.storage.transfer import (
    NO_CHECKPOINT,
    FileBytes,
    NumberedFiles,
    pack,
    pack_checkpoint,
    unpack_checkpoint,
    unpack_stage,
)
from reaper.study.stage_run import StageResources
from reaper.study.stages import Stage, run_stage
from reaper.version import VERSION

SECONDS_BETWEEN_EVENTS = 0.5
SECONDS_BETWEEN_STOP_CHECKS = 0.3
SECONDS_BETWEEN_POLLS = 1.0
TIMEOUT = 180.0  # seconds; the longest that file systems take to notice a dead machine or a new file


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is asked to do."""

    stage: Stage
    resources: StageResources
    threads: int
    folder: str  # of the store, if all nodes see it
    header: StoreHeader
    study: str  # names the working folder on a node that does not see the store
    shared: bool  # whether other engines may write to the store
    version: str = VERSION


class EventHub:
    """A Ray actor between the driver and its workers: events one way, the request to stop the other."""

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


class Connection:
    """A worker's connection to the hub."""

    def __init__(self, hub: Any, stage: Stage) -> None:
        self._hub, self._digest = hub, stage.digest
        self._answer: Any = None  # pending, to whether to stop
        self._next_check, self._stopping = 0.0, False
        self.progress = Progress(lambda event: hub.report.remote(self._digest, event), SECONDS_BETWEEN_EVENTS)

    def begin(self) -> None:
        """Waits until the hub knows of this worker, so that no result arrives before its start."""
        started = StageStarted(platform.node(), ray.get_runtime_context().get_node_id())
        self._stopping = bool(ray.get(self._hub.report.remote(self._digest, started)))

    def end(self) -> None:
        """Waits until the hub has all events: a result must not overtake them."""
        with suppress(RayError):  # the driver is gone
            ray.get(self._hub.stopping.remote())

    def stop(self) -> bool:
        """Whether to stop. Never waits for an answer: a late one stops the stage a moment later."""
        now = time.monotonic()
        if self._stopping or now < self._next_check:
            return self._stopping
        self._next_check = now + SECONDS_BETWEEN_STOP_CHECKS
        if self._answer is None:
            self._answer = self._hub.stopping.remote()
        elif ray.wait([self._answer], timeout=0)[0]:
            try:
                self._stopping = bool(ray.get(self._answer))
            except RayError:
                self._stopping = True  # the driver is gone
            self._answer = None
        return self._stopping


def work_shared(order: Order, hub: Any) -> bool:
    """Runs a stage in a store that all nodes see. Returns False if another engine is running it."""
    connection = _begin(order, hub)
    store = _open_shared(order)
    parents = order.stage.parents.values()
    if not poll(lambda: all(store.has(parent) for parent in parents), connection.stop):
        raise _not_visible(order)
    return _run(order, store, connection)


def work_fetched(
    order: Order, hub: Any, checkpoint: NumberedFiles, *parents: FileBytes
) -> tuple[bool, FileBytes, NumberedFiles]:
    """Runs a stage in a folder of this node, from the parents that came with the order. Returns whether it is finished,
    and its files; or, if it was asked to stop, its last checkpoint."""
    connection, stage = _begin(order, hub), order.stage
    store = Store(_private_folder() / order.study / stage.digest)
    store.make_folders()
    for digest, files in zip(stage.parents.values(), parents, strict=True):
        unpack_stage(files, store, digest)
    if not store.has(stage.digest):
        unpack_checkpoint(checkpoint, store, stage.digest)
    try:
        _run(order, store, connection)
    except Stopped:
        return False, {}, pack_checkpoint(store, stage.digest)
    files = pack(store.path_of(stage.digest))
    shutil.rmtree(store.folder, ignore_errors=True)
    return True, files, NO_CHECKPOINT


def poll(done: Callable[[], bool], stop: Callable[[], bool]) -> bool:
    """Waits until something is done; returns False after `TIMEOUT`."""
    end = time.monotonic() + TIMEOUT
    while not done():
        if stop():
            raise Stopped("stopped")
        if time.monotonic() > end:
            return False
        time.sleep(SECONDS_BETWEEN_POLLS)
    return True


def _begin(order: Order, hub: Any) -> Connection:
    if order.version != VERSION:
        raise UserError(f"{platform.node()} has reaper {VERSION}, this is {order.version}; install the same everywhere")
    torch.set_num_threads(order.threads)
    keep_freed_memory()
    connection = Connection(hub, order.stage)
    connection.begin()
    if connection.stop():
        raise Stopped("stopped")
    return connection


def _run(order: Order, store: Store, connection: Connection) -> bool:
    stage = order.stage

    def run() -> bool:
        return run_stage(stage, store, resources=order.resources, progress=connection.progress, stop=connection.stop)

    try:
        if order.shared:
            return run()
        # No other engine writes here, so whoever holds the stage is dead and the file system has not noticed yet.
        if poll(run, connection.stop):
            return True
    finally:
        connection.end()
    raise UserError(
        f"{stage.title}: {store.stage_lock(stage.digest).path} has been locked for {TIMEOUT / 60:g} minutes; if no "
        "other run writes there, delete that file and run the same command again"
    )


def _open_shared(order: Order) -> Store:
    if not (Path(order.folder) / "reaper.json").is_file():
        raise _not_visible(order)
    store = Store.open(order.folder)
    if store.header != order.header:
        raise _not_visible(order)
    return store


def _not_visible(order: Order) -> UserError:
    return UserError(
        f"{platform.node()} does not see this run in {order.folder}; give an --out on a disk that all nodes share, or "
        "use --ray.store fetch"
    )


def _private_folder() -> Path:
    """The working folder of a node that does not see the store. It survives a failed attempt, so that a retry on the
    same node finds its checkpoints."""
    folder = Path(tempfile.gettempdir()) / f"reaper-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UserError(f"{platform.node()}: others can write to {folder}; delete it")
    return folder
