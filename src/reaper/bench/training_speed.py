"""The speed of training as a share of bare emulation.

Training and bare emulation take turns of a tenth of a second, and bare emulation replays the very actions that training
chose, since the cost of a step depends on what happens in the environment. So a share compares equal work under equal
load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from reaper.bench.bare_emulation import WARM_UP, BareEmulation, rates_by_threads
from reaper.bench.measurement import BARE_EMULATION, Measurement
from reaper.bench.stopwatch import Stopwatch
from reaper.context import Context
from reaper.learning.trainer import Trainer
from reaper.tasks.atari import automatic_threads
from reaper.tasks.task import Task, VectorTask

WORTH_CHANGING = 1.05  # another number of emulator threads has to be this much faster than the default


@dataclass
class TrainingSpeed:
    """Measures trainers on some tasks, in environments that all trainers share: opening them takes 0.1 s each."""

    context: Context
    tasks: Sequence[Task]
    stopwatch: Stopwatch
    repeats: int
    report: Callable[[str], None]
    _envs: dict[tuple[str, int], VectorTask] = field(default_factory=dict)  # of each task a first and a second set

    def close(self) -> None:
        for envs in self._envs.values():
            envs.close()

    def measure(self, what: str, trainer: Trainer) -> dict[str, tuple[Measurement, Measurement]]:
        """Task -> bare emulation and training. The repeats of a task do not follow each other: load on the machine that
        lasts some seconds then spoils one repeat per task, which the median ignores."""
        pairs: dict[str, list[tuple[float, float]]] = {task.name: [] for task in self.tasks}
        for seed in range(self.repeats):
            for task in self.tasks:
                bare, trained = self._repeat(trainer, task, seed)
                repeat = f"{what} {task.name}, {seed + 1} of {self.repeats}"
                self.report(f"{repeat}: {trained:,.0f} and bare {bare:,.0f} agent steps/s")
                pairs[task.name].append((bare, trained))
        return {name: _measurements(what, name, found) for name, found in pairs.items()}

    def _repeat(self, trainer: Trainer, task: Task, seed: int) -> tuple[float, float]:
        """Agent steps per second of bare emulation and of training; the two sets of environments swap every repeat."""
        use_envs(trainer, self._open(task, seed % 2))
        bare = BareEmulation(self._open(task, (seed + 1) % 2))
        bare.reset(seed)
        trained = self._train(trainer, seed, bare.replay)
        return bare.rate, trained

    def _train(
        self, trainer: Trainer, seed: int, after_burst: Callable[[list[np.ndarray]], None] = lambda log: None
    ) -> float:
        """Agent steps per second of training after a reset; `after_burst` gets the log of all actions so far."""
        restart(trainer, seed)
        for _ in range(WARM_UP):
            trainer.step()
        seconds = 0.0
        while seconds < self.stopwatch.seconds:
            seconds += self.stopwatch.burst(trainer.step)
            after_burst(action_log(trainer))
        return (len(action_log(trainer)) - WARM_UP) * self.context.settings.training.num_envs / seconds

    def _open(self, task: Task, number: int = 0) -> VectorTask:
        if (task.name, number) not in self._envs:
            self._envs[task.name, number] = self._open_new(task)
        return self._envs[task.name, number]

    def _open_new(self, task: Task, threads: int | None = None) -> VectorTask:
        context = replace(self.context, emulator_threads=threads) if threads else self.context
        return context.open(task, context.settings.training.num_envs)

    def tune_threads(self, trainer: Trainer) -> dict[int, float]:
        """Emulator threads -> agent steps per second of bare emulation, on Atari with enough cores. The best number is
        used from here on, so that training is compared with the fastest bare emulation."""
        task = self.tasks[0]
        cores = len(os.sched_getaffinity(0))
        if not task.name.startswith("ALE/") or self.context.emulator_threads or cores < 4:
            return {}
        use_envs(trainer, self._open(task))
        self._train(trainer, 0)
        rates = rates_by_threads(lambda threads: self._open_new(task, threads), action_log(trainer))
        best = max(rates, key=lambda threads: rates[threads])
        listed = ", ".join(f"{threads}: {rate:,.0f}" for threads, rate in rates.items())
        self.report(f"bare emulation by number of threads: {listed} agent steps/s")
        if rates[best] > WORTH_CHANGING * rates[automatic_threads()]:
            self.report(f"measured with --emulator-threads {best}; use it for a run, too")
            self.context = replace(self.context, emulator_threads=best)
            self._envs.pop((task.name, 0)).close()
        return rates


def _measurements(what: str, task: str, pairs: list[tuple[float, float]]) -> tuple[Measurement, Measurement]:
    bare, trained = zip(*pairs, strict=True)
    shares = tuple(rate / reference for reference, rate in pairs)
    return (
        Measurement(BARE_EMULATION, task, "agent steps", bare),
        Measurement(what, task, "agent steps", trained, shares),
    )


# What the benchmark does to a trainer, besides calling `step`.


def use_envs(trainer: Trainer, envs: VectorTask) -> None:
    assert trainer.experience is not None
    trainer.experience.actor.use_envs(envs)


def close_envs(trainer: Trainer) -> None:
    assert trainer.experience is not None
    trainer.experience.close()


def restart(trainer: Trainer, seed: int) -> None:
    """Resets the environments of a trainer."""
    assert trainer.experience is not None
    trainer.flush()
    trainer.experience.actor.reset(seed)


def action_log(trainer: Trainer) -> list[np.ndarray]:
    """The actions since the last reset, one array per step; grows with every step."""
    assert trainer.experience is not None
    return trainer.experience.actor.action_log
