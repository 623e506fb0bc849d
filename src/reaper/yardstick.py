"""The yardstick of `reaper bench`: emulators that are given actions and have nothing else to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from reaper.tasks.atari import THREADS
from reaper.tasks.task import VectorTask

WARM_UP = 8  # steps before the clock starts
SPELL = 0.5  # seconds of training before the same is done bare: neighbours on a machine come and go within seconds


class Yardstick:
    """Games that follow what training does in games of its own, spell by spell, and are timed."""

    def __init__(self, games: VectorTask) -> None:
        self.games, self.followed, self.seconds = games, 0, 0.0

    def begin(self, seed: int) -> None:
        self.games.reset(seed)
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
            self.games.send(actions.astype(np.int64))
            self.games.receive()

    @property
    def rate(self) -> float:
        """Bare frames a second."""
        return (self.followed - WARM_UP) * self.games.games / self.seconds


def bare_rate(games: VectorTask, seed: int, log: list[np.ndarray]) -> float:
    """Frames a second of emulators that are given these actions and nothing else."""
    yardstick = Yardstick(games)
    yardstick.begin(seed)
    yardstick.follow(log)
    return yardstick.rate


def rates_by_threads(open_games: Callable[[], VectorTask], log: list[np.ndarray]) -> dict[int, float]:
    """Bare frames a second by the number of emulator threads, from half the cores to twice as many."""
    cores, rates = len(os.sched_getaffinity(0)), {}
    for threads in (cores // 2, cores - 1, cores, 2 * cores):
        os.environ[THREADS] = str(threads)
        games = open_games()
        rates[threads] = bare_rate(games, 0, log)
        games.close()
    del os.environ[THREADS]
    return rates
