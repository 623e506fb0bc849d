"""Polite stops: the first SIGINT or SIGTERM asks every stage to save and stop, a second SIGINT stops at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from reaper.system import die_with_parent


class Stop:
    """Whether a stop was asked for, and by what."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or number


@contextmanager
def listening() -> Iterator[Stop]:
    """Listens for signals while a study runs; only a main thread can."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listen_as_worker() -> Stop:
    """In a worker: its parent passes on the wish to stop as SIGTERM, and a terminal's SIGINT is the parent's business.
    Where the system can, a worker dies with its parent."""
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop.ask)
    die_with_parent(os.getppid())
    return stop
