"""The speed of each part of a RePR run on this machine, and the predicted duration of whole runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from reaper.bench.concurrent_eval import EPISODE_STEPS, ConcurrentWork, measure_concurrent_eval
from reaper.bench.measurement import (
    CHECKPOINT,
    EVALUATION,
    EVALUATION_WITH_TRAINING,
    EVALUATIONS_WITH_GENERATOR,
    GENERATION,
    GENERATOR,
    GENERATOR_WITH_EVALUATIONS,
    LONG_TERM,
    SHORT_TERM,
    TRAINING_WITH_EVALUATION,
    Measurement,
)
from reaper.bench.prediction import Prediction
from reaper.bench.stopwatch import Stopwatch
from reaper.bench.training_speed import TrainingSpeed, close_envs, restart
from reaper.compute.compilation import prepare_torch
from reaper.config.settings import Settings
from reaper.context import Context, compile_options, state_tensors
from reaper.generators import generator_for
from reaper.learning.evaluation.episodes import measure_pace
from reaper.learning.evaluation.evaluator import worth_concurrent_eval
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm
from reaper.learning.teachers import DQNTeacher
from reaper.learning.trainer import Trainer
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.study.conditions import CONDITIONS
from reaper.system import processor_name
from reaper.tasks.task import Task
from reaper.version import VERSION

FEW_ITEMS = 1_000  # pseudo-items on a CPU, where all of them would take an hour


@dataclass
class Benchmark:
    """Measures the parts of RePR on some tasks. The cost of an update does not depend on the task, so all tasks share
    one trainer of each kind, which is compiled once."""

    tasks: Sequence[Task]
    num_actions: int
    settings: Settings
    device: torch.device
    seconds: float = 3.0  # per rate
    repeats: int = 3
    report: Callable[[str], None] = print
    concurrent_eval: bool | None = None  # None: as in a run
    measurements: list[Measurement] = field(default_factory=list)
    set_up: dict[str, float] = field(default_factory=dict)  # seconds of what is not a speed (see Prediction)
    rates_by_threads: dict[int, float] = field(default_factory=dict)  # emulator threads -> agent steps per second

    def __post_init__(self) -> None:
        prepare_torch(self.device)
        if self.concurrent_eval is None:
            self.concurrent_eval = worth_concurrent_eval(self.settings, self.device)
        self.context = Context(
            self._quick_settings(),
            self.num_actions,
            0,
            ("bench",),
            device=self.device,
            **compile_options(self.settings, self.device),
        )
        self.stopwatch = Stopwatch(self.device, self.seconds)
        self.training = TrainingSpeed(self.context, self.tasks, self.stopwatch, self.repeats, self.report)

    def _quick_settings(self) -> Settings:
        """The same settings, but learning starts at once, and a CPU generates only a few items."""
        training, generator = self.settings.training, self.settings.generator
        start = 2 * (self.settings.observation.frame_stack + 2) * training.num_envs
        items = generator.pseudo_items if self.device.type == "cuda" else min(generator.pseudo_items, FEW_ITEMS)
        return replace(
            self.settings,
            training=replace(training, learning_starts=start),
            generator=replace(generator, pseudo_items=items),
        )

    def run(self) -> None:
        try:
            self._run()
        finally:
            self.training.close()

    def _run(self) -> None:
        short_term, self.set_up[SHORT_TERM] = self.stopwatch.time(self._short_term)
        self.rates_by_threads = self.training.tune_threads(short_term.trainer)
        self.context = self.training.context  # with the best number of emulator threads
        self._training(SHORT_TERM, short_term.trainer)
        if self.concurrent_eval:
            self._training_with_evaluation(short_term.trainer)
        self._checkpoint(short_term.trainer)
        self._generator(short_term)
        trainer, self.set_up[LONG_TERM] = self.stopwatch.time(self._long_term)
        self._training(LONG_TERM, trainer)
        for task in self.tasks:
            self._evaluation(task)

    def _add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        self.report(str(measurement))

    def _short_term(self) -> ShortTerm:
        learner = ShortTerm(self.context, self.tasks[0])
        self._start_learning(learner.trainer)
        return learner

    def _long_term(self) -> Trainer:
        """The trainer of RePR on a second task, with a teacher for it and pseudo-items of the first. Nothing is
        trained yet, which costs the same."""
        context, condition = self.context, CONDITIONS["RePR"]
        teacher = DQNTeacher(context, state_tensors(context.q_network()), 0.0, 1.0)
        untrained = generator_for(context.settings).untrained(context)
        retained = {f"generator.{name}": tensor for name, tensor in untrained.state().items()}
        memory = LongTermMemory(teacher.weights, (self.tasks[0].name,), retained)
        consolidation = Consolidation(
            context,
            (self.tasks[0], self.tasks[0]),
            condition.make_objective(),
            condition.make_retention(context.settings),
            condition.make_knowledge(),
            teacher,
        )
        _, _, trainer = consolidation.begin(memory, context.q_network(memory.agent))
        self._start_learning(trainer)
        return trainer

    def _start_learning(self, trainer: Trainer) -> None:
        """Fills the replay and makes the first updates; then the trainer's own environments are not needed any more."""
        trainer.train_to(2 * self.context.settings.training.learning_starts)
        close_envs(trainer)

    def _training(self, what: str, trainer: Trainer) -> None:
        for bare, trained in self.training.measure(what, trainer).values():
            if what == SHORT_TERM:
                self._add(bare)
            self._add(trained)
        per_step = self.settings.training.num_envs // self.settings.training.steps_per_update
        if updates := trainer.learner.graphs.get(per_step):  # a CUDA graph of the updates of one step
            rates = tuple(self.stopwatch.calls_per_second(updates) * per_step for _ in range(self.repeats))
            self._add(Measurement(f"updates of {what} alone", "", "updates", rates))

    def _training_with_evaluation(self, trainer: Trainer) -> None:
        def rate(until: Callable[[], bool] | None) -> float:
            restart(trainer, 0)
            return self.stopwatch.calls_per_second(trainer.step, until) * self.settings.training.num_envs

        self._concurrent(
            ConcurrentWork(
                rate,
                "agent steps",
                alone="training alone",
                during_evaluation=TRAINING_WITH_EVALUATION,
                evaluation=EVALUATION_WITH_TRAINING,
            )
        )

    def _concurrent(self, work: ConcurrentWork) -> None:
        task, seconds = self.tasks[-1], 3 * self.seconds
        measured = measure_concurrent_eval(self.context, work, task, seconds, repeats=self.repeats)
        slowed, evaluation, self.set_up[work.evaluation] = measured
        self._add(slowed)
        self._add(evaluation)

    def _checkpoint(self, trainer: Trainer) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpointer = Checkpointer(CheckpointDir(Path(folder) / "checkpoints", "bench"), Interval(10**9))
            checkpointer.register("trainer", trainer)
            trainer.train_to(trainer.agent_steps + self.settings.training.num_envs)

            def save() -> None:
                checkpointer.save()
                checkpointer.close()

            save()  # the first one also allocates the memory for its copies
            stalled = checkpointer.stalled
            _, seconds = self.stopwatch.time(save)
            self.set_up[CHECKPOINT] = checkpointer.stalled - stalled
        self._add(Measurement(CHECKPOINT, "", "MB", (checkpointer.bytes / 1e6 / seconds,)))

    def _generator(self, short_term: ShortTerm) -> None:
        items = self._generation()
        generator = generator_for(self.context.settings)

        def start() -> Any:
            training = generator.training(self.context, short_term.experience.replay, items, 2)
            training.begin()
            training.step()
            return training

        training, self.set_up[GENERATOR] = self.stopwatch.time(start)

        def rate(until: Callable[[], bool] | None = None) -> float:
            return self.stopwatch.calls_per_second(training.step, until) * training.steps_per_call

        self._add(Measurement(GENERATOR, "", "steps", tuple(rate() for _ in range(self.repeats))))
        if self.concurrent_eval:
            self._concurrent(
                ConcurrentWork(
                    rate,
                    "steps",
                    alone="generator training alone",
                    during_evaluation=GENERATOR_WITH_EVALUATIONS,
                    evaluation=EVALUATIONS_WITH_GENERATOR,
                    num_evaluations=2,
                )
            )

    def _generation(self) -> Items:
        """Measures the generation of pseudo-items, and returns some of them."""
        context, count = self.context, self.context.settings.generator.pseudo_items
        generator, rng = generator_for(context.settings).untrained(context), context.rng("bench generation")
        generator.sample(min(count, FEW_ITEMS), rng)
        rates, some = [], torch.empty(0)
        for _ in range(self.repeats):
            states, seconds = self.stopwatch.time(lambda: generator.sample(count, rng))
            rates.append(count / seconds)
            some = states[: 10 * FEW_ITEMS].clone()
            del states  # before the next ones are generated: they may fill half of a GPU
        self._add(Measurement(GENERATION, "", "pseudo-items", tuple(rates)))
        return Items(some)

    def _evaluation(self, task: Task) -> None:
        """Evaluates an untrained agent, for a limited time."""
        pace = measure_pace(self.context, self.context.q_network(), task, self.seconds)
        rate = self.settings.evaluation.episodes * pace.steps / pace.seconds
        self._add(Measurement(EVALUATION, task.name, "agent steps", (rate,)))
        episodes = 1.0 if pace.whole else EPISODE_STEPS / pace.steps
        self.set_up[f"{EVALUATION} {task.name}"] = pace.startup + episodes * pace.seconds

    def predicted_hours(self, tasks: Sequence[str]) -> dict[str, float]:
        """Hours of RePR on these tasks at the full budget, by part."""
        return Prediction(self.settings, self.measurements, self.set_up, tasks).hours()

    def machine(self) -> dict[str, Any]:
        return {
            "device": processor_name(self.device),
            "cores": len(os.sched_getaffinity(0)),
            "torch": torch.__version__,
            "reaper": VERSION,
            "threads": self.rates_by_threads,
        }
