"""Timing of work that may run asynchronously on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")

BURST = 0.1  # seconds of training before bare emulation repeats it: other load on the machine changes within seconds
CALLS_BETWEEN_WAITS = 16  # the host must not queue GPU work without limit


@dataclass(frozen=True)
class Stopwatch:
    """Times work on a device; a rate is taken over `seconds`."""

    device: torch.device
    seconds: float

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def time(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """What the work returns, and its seconds."""
        start = time.perf_counter()
        result = work()
        self.synchronize()
        return result, time.perf_counter() - start

    def burst(self, step: Callable[[], None]) -> float:
        """Seconds of a burst of steps, with all the updates they queue; at least one step."""
        self.synchronize()
        start = time.perf_counter()
        end = start + min(BURST, self.seconds)
        step()
        while time.perf_counter() < end:
            step()
        self.synchronize()
        return time.perf_counter() - start

    def calls_per_second(self, call: Callable[[], None], until: Callable[[], bool] | None = None) -> float:
        """Calls per second over `seconds`, or until `until` returns True; at least one call."""
        self.synchronize()
        calls, start = 0, time.perf_counter()
        done = until or (lambda: time.perf_counter() - start >= self.seconds)
        while not calls or not done():
            call()
            calls += 1
            if calls % CALLS_BETWEEN_WAITS == 0:
                self.synchronize()
        self.synchronize()
        return calls / (time.perf_counter() - start)
