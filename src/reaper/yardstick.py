"""The yardstick of `reaper bench`: emulators that are given actions and have nothing else to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from reaper.tasks.atari import THREADS
from reaper.tasks.task import VectorTask

WARM_UP = 8  # steps before the clock starts


def bare_rate(games: VectorTask, seed: int, log: list[np.ndarray]) -> float:
    """Frames a second of emulators that are given these actions and nothing else; the first are not timed."""
    games.reset(seed)
    start = 0.0
    for number, actions in enumerate(log):
        if number == WARM_UP:
            start = time.perf_counter()
        games.send(actions.astype(np.int64))
        games.receive()
    return (len(log) - WARM_UP) * games.games / (time.perf_counter() - start)


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
