"""Bare emulation: environments that replay given actions and nothing else. Training cannot be faster than that."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from reaper.tasks.task import VectorTask

WARM_UP = 8  # steps before the clock starts
STEPS_PER_TURN = 20  # steps with one number of threads before those with the next


class BareEmulation:
    """Replays the actions of training in environments of its own, and times them."""

    def __init__(self, envs: VectorTask) -> None:
        self.envs = envs
        self.steps, self.seconds = 0, 0.0

    def reset(self, seed: int) -> None:
        self.envs.reset(seed)
        self.steps, self.seconds = 0, 0.0

    def replay(self, action_log: list[np.ndarray]) -> None:
        """Replays the actions that are new in the log; the first `WARM_UP` steps are not timed."""
        self._step(action_log[self.steps : WARM_UP])
        if len(action_log) > WARM_UP:
            start = time.perf_counter()
            self._step(action_log[max(self.steps, WARM_UP) :])
            self.seconds += time.perf_counter() - start
        self.steps = len(action_log)

    def _step(self, action_log: list[np.ndarray]) -> None:
        for actions in action_log:
            self.envs.send(actions.astype(np.int64))
            self.envs.receive()

    @property
    def rate(self) -> float:
        """Agent steps per second of all environments together."""
        return (self.steps - WARM_UP) * self.envs.num_envs / self.seconds


def rates_by_threads(open_envs: Callable[[int], VectorTask], action_log: list[np.ndarray]) -> dict[int, float]:
    """Emulator threads -> agent steps per second, from half to twice as many threads as cores. The numbers of threads
    take turns, so that other load on the machine disturbs all of them."""
    cores, emulations = len(os.sched_getaffinity(0)), {}
    try:
        for threads in (cores // 2, cores - 1, cores, 2 * cores):
            emulations[threads] = BareEmulation(open_envs(threads))
            emulations[threads].reset(0)
        for end in range(WARM_UP + STEPS_PER_TURN, len(action_log) + STEPS_PER_TURN, STEPS_PER_TURN):
            for emulation in emulations.values():
                emulation.replay(action_log[:end])
        return {threads: emulation.rate for threads, emulation in emulations.items()}
    finally:
        for emulation in emulations.values():
            emulation.envs.close()
