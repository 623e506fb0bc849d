"""The local engine: runs ready stages side by side on one machine, in processes of their own."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch

from reaper.progress import Event, Progress
from reaper.stages import Stage, run_stage
from reaper.store import Store

Listener = Callable[[Stage, Event], None]  # told of every event of every stage


def heights(stages: Sequence[Stage]) -> dict[str, int]:
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


def run_stages(
    stages: Sequence[Stage], store: Store, device: str, workers: int, threads: int, listen: Listener
) -> None:
    """Runs every stage that is not in the store yet; `stages` are in an order in which parents come first."""
    waiting = [stage for stage in stages if not store.has(stage.digest)]
    for stage in stages:
        if store.has(stage.digest):
            store.stage(stage.digest).check()  # damaged work is never built upon
            listen(stage, {"event": "kept"})
    height = heights(stages)
    waiting.sort(key=lambda stage: -height[stage.digest])
    if workers == 1 or len(waiting) <= 1:
        _run_here(stages, store, device, threads, listen)
    else:
        _run_side_by_side(waiting, store, device, workers, threads, listen)


def _run_here(stages: Sequence[Stage], store: Store, device: str, threads: int, listen: Listener) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        for stage in stages:
            if not store.has(stage.digest):
                listen(stage, {"event": "started"})
                run_stage(stage, store, torch.device(device), Progress(lambda event, s=stage: listen(s, event)))
                listen(stage, {"event": "finished", **store.stage(stage.digest).made()})
    finally:
        torch.set_num_threads(before)


_events: Any = None  # a worker process's way to its parent


def _begin_worker(events: Any, threads: int) -> None:
    global _events
    _events = events
    torch.set_num_threads(threads)
    keep_freed_memory()


def _work(spec: str, title: str, folder: str, device: str) -> None:
    stage = Stage(json.loads(spec), title)
    progress = Progress(lambda event: _events.put((stage.digest, event)))
    run_stage(stage, Store(Path(folder)), torch.device(device), progress)


def _run_side_by_side(
    waiting: list[Stage], store: Store, device: str, workers: int, threads: int, listen: Listener
) -> None:
    processes = multiprocessing.get_context("spawn")
    events = processes.Queue()
    by_digest = {stage.digest: stage for stage in waiting}
    running: dict[Future[None], Stage] = {}
    pool = ProcessPoolExecutor(workers, processes, initializer=_begin_worker, initargs=(events, threads))
    try:
        while waiting or running:
            for stage in [s for s in waiting if all(store.has(p) for p in s.parents.values())]:
                if len(running) >= workers:
                    break
                waiting.remove(stage)
                spec = json.dumps(stage.spec)
                running[pool.submit(_work, spec, stage.title, str(store.folder), device)] = stage
                listen(stage, {"event": "started"})
            done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            _pass_on(events, by_digest, listen)
            for future in done:
                stage = running.pop(future)
                future.result()  # raises what the stage raised
                listen(stage, {"event": "finished", **store.stage(stage.digest).made()})
    finally:
        for process in (pool._processes or {}).values() if running else ():
            process.terminate()  # an error or an interrupt: nothing of the other stages is worth waiting for
        pool.shutdown(cancel_futures=True)


def _pass_on(events: Any, by_digest: dict[str, Stage], listen: Listener) -> None:
    while True:
        try:
            digest, event = events.get_nowait()
        except queue.Empty:
            return
        listen(by_digest[digest], event)
