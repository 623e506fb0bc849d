"""What this machine makes of each part of a run, beside its bare emulators, and how long a whole run would take.

Training and bare emulation take turns, and the bare emulators are given the very actions that training chose: what a
game costs depends on what is played. So a share compares the same work in the same second.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reaper.bench.bare_emulation import SPELL, WARM_UP, Yardstick, rates_by_threads
from reaper.bench.concurrent_eval import Rate, with_tests
from reaper.bench.prediction import BESIDE, GAME, GAN_BESIDE, TEST_BESIDE, TEST_BESIDE_GAN, Figure, predicted_hours
from reaper.compute.compilation import use_quick_arithmetic, worth_compiling
from reaper.config.settings import Settings
from reaper.context import Context, state_tensors
from reaper.generators import generator_for
from reaper.learning.evaluation.episodes import measure_pace
from reaper.learning.evaluation.evaluator import worth_a_process
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm, Teacher
from reaper.learning.trainer import Trainer
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.study.conditions import CONDITIONS, KNOWLEDGE
from reaper.system import processor_name
from reaper.tasks.atari import automatic_threads
from reaper.tasks.task import Task, VectorTask
from reaper.version import VERSION

FEW_DREAMS = 1_000  # on a CPU the whole array would take an hour


@dataclass
class Bench:
    """Measures the parts of RePR on some tasks. Networks do not care which game they see, so one learner of each kind
    serves all tasks, and is compiled once."""

    tasks: tuple[Task, ...]
    actions: int
    settings: Settings
    device: torch.device
    seconds: float = 3.0
    repeats: int = 3
    say: Callable[[str], None] = print
    concurrent_eval: bool | None = None  # None: as in a run
    figures: list[Figure] = field(default_factory=list)
    set_up: dict[str, float] = field(default_factory=dict)  # seconds before the first step of each kind of stage
    threads: dict[int, float] = field(default_factory=dict)  # emulator threads -> bare frames a second
    opened: dict[tuple[str, int], VectorTask] = field(default_factory=dict)  # of each task a first and a second set

    def __post_init__(self) -> None:
        use_quick_arithmetic(self.device)
        training, generator = self.settings.training, self.settings.generator
        start = 2 * (self.settings.observation.frame_stack + 2) * training.num_envs
        items = generator.pseudo_items if self.device.type == "cuda" else min(generator.pseudo_items, FEW_DREAMS)
        quick = replace(
            self.settings,
            training=replace(training, learning_starts=start),
            generator=replace(generator, pseudo_items=items),
        )
        if self.concurrent_eval is None:
            self.concurrent_eval = worth_a_process(self.settings, self.device)
        compiles = worth_compiling(self.settings, self.device)
        self.context = Context(quick, self.actions, 0, ("bench",), self.device, compiles=compiles)

    def run(self) -> None:
        try:
            self._run()
        finally:
            for games in self.opened.values():
                games.close()

    def _run(self) -> None:
        short = self._timed("short-term", lambda: self._short_term())
        self._count_threads(short.trainer)
        self._training("short-term training", short.trainer)
        if self.concurrent_eval:
            self._beside(short.trainer, self.tasks[-1])
        self._checkpoint(short.trainer)
        self._generator(short)
        _, _, trainer = self._timed("long-term", lambda: self._long_term())
        self._training("long-term training", trainer)
        for task in self.tasks:
            self._evaluation(task)

    def _timed(self, what: str, begin: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        begun = begin()
        self._wait()
        self.set_up[what] = time.perf_counter() - start
        return begun

    def _note(self, figure: Figure) -> None:
        self.figures.append(figure)
        share = f", {figure.share:.2f} of {figure.of}" if figure.share else ""
        self.say(f"{figure.what} {figure.task}: {figure.rate:,.0f} {figure.unit}/s{share}")

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _short_term(self) -> ShortTerm:
        learner = ShortTerm(self.context, self.tasks[0])
        learner.trainer.run_to(2 * self.context.settings.training.learning_starts)
        self._close(learner.trainer)
        return learner

    def _long_term(self) -> tuple[Any, Any, Trainer]:
        """RePR on a second task: replay and teacher for the new one, a generator's dreams for the first. Nothing is
        trained yet, which costs the same."""
        context, condition = self.context, CONDITIONS["RePR"]
        teacher = Teacher(state_tensors(context.q_network()), 0.0, 1.0)
        untrained = generator_for(context.settings).untrained(context)
        generator = {f"generator.{name}": tensor for name, tensor in untrained.state().items()}
        memory = LongTermMemory(teacher.weights, (self.tasks[0].name,), generator)
        knowledge = KNOWLEDGE[condition.knowledge]()
        two = (self.tasks[0], self.tasks[0])
        retention = condition.configured_retention(context.settings)
        consolidation = Consolidation(context, two, condition.teaches, retention, knowledge, teacher)
        objective, recall, trainer = consolidation.begin(memory, context.q_network(memory.agent))
        trainer.run_to(2 * context.settings.training.learning_starts)
        self._close(trainer)
        return objective, recall, trainer

    def _close(self, trainer: Trainer) -> None:
        """A learner's own games make way for those that all learners are measured on."""
        assert trainer.actor is not None
        trainer.actor.task.close()

    def _games(self, task: Task, number: int = 0) -> VectorTask:
        """Opened once: it takes a tenth of a second a game."""
        key = (task.name, number)
        if key not in self.opened:
            self.opened[key] = self.context.open(task, self.settings.training.num_envs)
        return self.opened[key]

    def _training(self, what: str, trainer: Trainer) -> None:
        """Steps with their updates, and the same actions without. All tasks have their first repeat, then their second:
        what disturbs the machine for some seconds spoils one repeat of a task, and the median passes it over."""
        measured: dict[str, list[tuple[float, float]]] = {task.name: [] for task in self.tasks}
        for seed in range(self.repeats):
            for task in self.tasks:
                rate, bare = self._repeat(trainer, task, seed)
                self.say(f"{what} {task.name}, {seed + 1} of {self.repeats}: {rate:,.0f} and bare {bare:,.0f} frames/s")
                measured[task.name].append((rate, bare))
        for name, pairs in measured.items():
            if what.startswith("short"):
                self._note(Figure("bare emulation", name, "frames", tuple(bare for _, bare in pairs)))
            shares = tuple(rate / bare for rate, bare in pairs)
            self._note(Figure(what, name, "frames", tuple(rate for rate, _ in pairs), shares))
        if updates := trainer.recordings.get(self._updates_a_step()):  # with nothing else running
            rates = tuple(self._rate(updates) * self._updates_a_step() for _ in range(self.repeats))
            self._note(Figure(f"updates of {what}, alone", "", "updates", rates))

    def _repeat(self, trainer: Trainer, task: Task, seed: int) -> tuple[float, float]:
        """Frames a second of training, and bare. The two sets of games change roles with every repeat."""
        assert trainer.actor is not None
        trainer.actor.task, yardstick = self._games(task, seed % 2), Yardstick(self._games(task, (seed + 1) % 2))
        yardstick.begin(seed)
        return self._trained(trainer, seed, yardstick.follow), yardstick.rate

    def _updates_a_step(self) -> int:
        return self.settings.training.num_envs // self.settings.training.steps_per_update

    def _trained(
        self, trainer: Trainer, seed: int, follow: Callable[[list[np.ndarray]], None] = lambda log: None
    ) -> float:
        """Frames a second of training in games that are begun anew; something may follow each spell of it."""
        actor, seconds = trainer.actor, 0.0
        assert actor is not None
        trainer.settle()
        actor.begin(seed)
        for _ in range(WARM_UP):
            trainer.step()
        while seconds < self.seconds:
            seconds += self._spell(trainer.step)
            follow(actor.log)
        return (len(actor.log) - WARM_UP) * actor.task.num_envs / seconds

    def _spell(self, step: Callable[[], None]) -> float:
        """The seconds of a spell of steps, with all their updates; at least one step."""
        self._wait()
        start = time.perf_counter()
        until = start + min(SPELL, self.seconds)
        step()
        while time.perf_counter() < until:
            step()
        self._wait()
        return time.perf_counter() - start

    def _rate(self, step: Callable[[], None], until: Callable[[], bool] | None = None) -> float:
        """Calls a second, for as long as each rate is taken or until something is over; at least one."""
        self._wait()
        calls, start = 0, time.perf_counter()
        over = until or (lambda: time.perf_counter() - start >= self.seconds)
        while not calls or not over():
            step()
            calls += 1
            if calls % 16 == 0:
                self._wait()  # or the host would run ahead
        self._wait()
        return calls / (time.perf_counter() - start)

    def _count_threads(self, trainer: Trainer) -> None:
        """Which number of emulator threads is best for bare emulation; training is compared with that."""
        cores = len(os.sched_getaffinity(0))
        if not self.tasks[0].name.startswith("ALE/") or self.context.emulator_threads or cores < 4:
            return
        actor = trainer.actor
        assert actor is not None
        actor.task = self._games(self.tasks[0])
        self._trained(trainer, 0)
        self.threads = rates_by_threads(
            lambda threads: self._with_threads(threads).open(self.tasks[0], self.settings.training.num_envs), actor.log
        )
        best = max(self.threads, key=lambda threads: self.threads[threads])
        rates = ", ".join(f"{threads}: {rate:,.0f}" for threads, rate in self.threads.items())
        self.say(f"bare emulation by number of threads: {rates}")
        if self.threads[best] > 1.05 * self.threads[automatic_threads()]:  # less is noise
            self.say(f"measured with --emulator-threads {best}; set it for a run, too")
            self.context = self._with_threads(best)
            self.opened.pop((self.tasks[0].name, 0)).close()

    def _with_threads(self, threads: int) -> Context:
        return replace(self.context, emulator_threads=threads)

    def _generator(self, short: ShortTerm) -> None:
        context, count = self.context, self.context.settings.generator.pseudo_items
        kind = generator_for(context.settings)
        generator, rng = kind.untrained(context), context.rng("bench dreams")
        generator.sample(min(count, FEW_DREAMS), rng)
        rates = []
        for _ in range(self.repeats):
            start = time.perf_counter()
            states = generator.sample(count, rng)
            self._wait()
            rates.append(count / (time.perf_counter() - start))
            items = Items(states[: FEW_DREAMS * 10].clone())
            del states
        self._note(Figure("generation", "", "items", tuple(rates)))
        start = time.perf_counter()
        training = kind.training(context, short.replay, items, 2)
        training.begin()
        training.step()
        self._wait()
        self.set_up["generator"] = time.perf_counter() - start
        per_call = training.steps_per_call
        self._note(Figure("GAN", "", "steps", tuple(per_call * self._rate(training.step) for _ in range(self.repeats))))
        if self.concurrent_eval:

            def rate(until: Callable[[], bool] | None = None) -> float:
                return per_call * self._rate(training.step, until)

            self._with_tests(rate, self.tasks[-1], (GAN_BESIDE, TEST_BESIDE_GAN, "GAN alone", "steps"), side_by_side=2)

    def _evaluation(self, task: Task) -> None:
        """Whole games of an untrained agent, up to a limit of time: whole evaluations a second."""
        pace = measure_pace(self.context, self.context.q_network(), task, self.seconds)
        rate = self.settings.evaluation.episodes * pace.steps / pace.seconds
        self._note(Figure("evaluation", task.name, "frames", (rate,)))
        length = 1.0 if pace.whole else GAME / pace.steps
        self.set_up[f"evaluation {task.name}"] = pace.beginning + length * pace.seconds

    def _beside(self, trainer: Trainer, task: Task) -> None:
        """Training with a test beside it and without, in turn; and how quickly such a test is played."""
        actor, games = trainer.actor, self.settings.training.num_envs
        assert actor is not None

        def rate(until: Callable[[], bool] | None = None) -> float:
            trainer.settle()
            actor.begin(0)
            return self._rate(trainer.step, until) * games

        self._with_tests(rate, task, (BESIDE, TEST_BESIDE, "training alone", "frames"))

    def _with_tests(self, rate: Rate, task: Task, kinds: tuple[str, str, str, str], side_by_side: int = 1) -> None:
        measured = with_tests(self.context, rate, task, kinds, 3 * self.seconds, self.repeats, side_by_side)
        *figures, self.set_up[kinds[1]] = measured
        for figure in figures:
            self._note(figure)

    def _checkpoint(self, trainer: Trainer) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpointer = Checkpointer(CheckpointDir(Path(folder) / "shelf", "bench"), Interval(10**9))
            checkpointer.register("trainer", trainer)
            trainer.run_to(trainer.agent_steps + self.settings.training.num_envs)
            rates = []
            for _ in range(2):  # the first one takes the memory for its copies
                stalled, start = checkpointer.stalled, time.perf_counter()
                checkpointer.save()
                checkpointer.close()
                rates.append(checkpointer.bytes / 1e6 / (time.perf_counter() - start))
            self.set_up["checkpoint"] = checkpointer.stalled - stalled
        self._note(Figure("checkpoint", "", "MB", (rates[-1],)))

    def predicted(self, tasks: Iterable[str]) -> dict[str, float]:
        """Hours of RePR on these tasks at the scale's full budget."""
        return predicted_hours(self.settings, self.figures, self.set_up, list(tasks))

    def machine(self) -> dict[str, Any]:
        name = processor_name(self.device)
        cores = len(os.sched_getaffinity(0))
        return {"device": name, "cores": cores, "torch": torch.__version__, "reaper": VERSION, "threads": self.threads}
