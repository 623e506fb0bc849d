"""The yardstick of `reaper bench`: emulators that are given actions and have nothing else to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from reaper.tasks.task import VectorTask

WARM_UP = 8  # steps before the clock starts
SPELL = 0.1  # seconds of training before the same is done bare: neighbours on a machine come and go within seconds
IN_TURN = 20  # steps of one number of threads before those of the next


class Yardstick:
    """Games that follow what training does in games of its own, spell by spell, and are timed."""

    def __init__(self, games: VectorTask) -> None:
        self.num_envs, self.followed, self.seconds = games, 0, 0.0

    def begin(self, seed: int) -> None:
        self.num_envs.reset(seed)
        self.followed, self.seconds = 0, 0.0

    def follow(self, log: list[np.ndarray]) -> None:
        """Plays the actions that are new in the log; the first of all are not timed."""
        self._play(log[self.followed : WARM_UP])
        if len(log) > WARM_UP:
            start = time.perf_counter()
            self._play(log[max(self.followed, WARM_UP) :])
            self.seconds += time.perf_counter() - start
        self.followed = len(log)

    def _play(self, log: list[np.ndarray]) -> None:
        for actions in log:
            self.num_envs.send(actions.astype(np.int64))
            self.num_envs.receive()

    @property
    def rate(self) -> float:
        """Bare frames a second."""
        return (self.followed - WARM_UP) * self.num_envs.num_envs / self.seconds


def rates_by_threads(open_games: Callable[[int], VectorTask], log: list[np.ndarray]) -> dict[int, float]:
    """Bare frames a second by the number of emulator threads, from half the cores to twice as many; a few steps of each
    in turn."""
    cores, yardsticks = len(os.sched_getaffinity(0)), {}
    try:
        for threads in (cores // 2, cores - 1, cores, 2 * cores):
            yardsticks[threads] = Yardstick(open_games(threads))
            yardsticks[threads].begin(0)
        for end in range(WARM_UP + IN_TURN, len(log) + IN_TURN, IN_TURN):
            for yardstick in yardsticks.values():
                yardstick.follow(log[:end])
        return {threads: yardstick.rate for threads, yardstick in yardsticks.items()}
    finally:
        for yardstick in yardsticks.values():
            yardstick.num_envs.close()
