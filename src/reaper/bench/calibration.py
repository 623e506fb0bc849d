"""How long a unit of work takes on this machine, from a trial of a fraction of a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from reaper.context import Context
from reaper.engines.resources import Resources
from reaper.equations import fisher_diagonal
from reaper.errors import Stopped
from reaper.generators import generator_for
from reaper.learning.collection import ReplayCollection
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.short_term import ShortTerm
from reaper.storage.checkpoints import Checkpointer
from reaper.study.kinds.base import Stage
from reaper.study.stage_run import settings_of
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task

SECONDS_PER_TRIAL = 0.4


@dataclass(frozen=True)
class Calibration:
    """Trials of the kinds of work that a stage consists of, with its settings and on its first task."""

    stage: Stage
    resources: Resources

    def seconds_per(self, unit: str) -> float:
        """Seconds of one unit of work; `unit` is a field of `Load`."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.resources.threads)
        try:
            return getattr(self, f"_{unit}")()
        finally:
            torch.set_num_threads(before)

    def _context(self, checkpointer: Checkpointer | None = None) -> Context:
        spec = self.stage.spec
        device = "cpu" if self.resources.device == "auto" else self.resources.device
        return Context(
            settings_of(spec),
            spec["num_actions"],
            0,
            ("calibration",),
            device=torch.device(device),
            checkpointer=checkpointer or Checkpointer(),
            emulator_threads=self.resources.emulator_threads,
        )

    def _task(self) -> Task:
        spec = self.stage.spec
        return find_task(spec["task"] if "task" in spec else spec["tasks"][0])

    def _training_steps(self) -> float:
        trainer = ShortTerm(context := self._context(), self._task()).trainer
        experience = trainer.experience
        assert experience is not None
        experience.actor.reset(0)
        while not experience.replay.ready():
            trainer.step()
        trainer.learning = True
        seconds = _seconds_per_call(trainer.step) / context.settings.training.num_envs
        experience.close()
        return seconds

    def _collected_steps(self) -> float:
        timer = _Timer()
        context = self._context(Checkpointer(stop=timer))
        collection = ReplayCollection(context, context.q_network(), self._task())
        try:
            collection.run()
        except Stopped:
            collection.close()
        assert collection.agent_steps is not None
        return timer.seconds / max(collection.agent_steps - collection.first, 1)

    def _generator_steps(self) -> float:
        context = self._context()
        noise = _Noise(context.observation.shape, context.device)
        training = generator_for(context.settings).training(context, noise, None, 1)
        training.begin()
        return _seconds_per_call(training.step) / training.steps_per_call

    def _fisher_batches(self) -> float:
        context = self._context()
        shape = (context.settings.training.batch_size, *context.observation.shape)
        states = torch.zeros(shape, dtype=context.observation.torch_dtype, device=context.device)
        network = context.q_network()
        return _seconds_per_call(lambda: fisher_diagonal(network, states))

    def _episodes(self) -> float:
        """An episode of an untrained network; a trained one may play longer or shorter episodes."""
        timer = _Timer(3 * SECONDS_PER_TRIAL)
        context = self._context(Checkpointer(stop=timer))
        try:
            evaluate(context, context.q_network(), self._task(), 0)
        except Stopped:
            return 2 * timer.seconds / context.settings.evaluation.episodes  # a guess: some episodes had not ended
        return timer.seconds / context.settings.evaluation.episodes


class _Timer:
    """Returns True when called after a trial has lasted long enough."""

    def __init__(self, limit: float | None = None) -> None:
        self.started, self.limit = time.monotonic(), SECONDS_PER_TRIAL if limit is None else limit

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def __call__(self) -> bool:
        return self.seconds > self.limit


@dataclass(frozen=True)
class _Noise:
    """Random states, in place of a replay."""

    shape: tuple[int, ...]
    device: torch.device

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return torch.randint(256, (count, *self.shape), generator=rng, device=self.device, dtype=torch.uint8)

    distinct_states = sample_states


def _seconds_per_call(work: Callable[[], Any]) -> float:
    """Seconds of one call, after a first one that warms up."""
    work()
    timer, calls = _Timer(), 0
    while not timer() or not calls:
        work()
        calls += 1
    return timer.seconds / calls
