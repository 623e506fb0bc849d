"""How long a unit of work takes on this machine: a short trial of each kind."""

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
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.short_term import Gathering, ShortTerm
from reaper.storage.checkpoints import Checkpointer
from reaper.study.kinds.base import Stage
from reaper.study.stage_run import settings_of
from reaper.tasks.sequence import find_task

SECONDS_A_PROBE = 0.4


@dataclass(frozen=True)
class Probe:
    """Short trials of the kinds of work a stage consists of, with its settings and on its task."""

    stage: Stage
    resources: Resources

    def seconds(self, unit: str) -> float:
        """How long one unit (a field of `Load`) takes."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.resources.threads)
        try:
            return getattr(self, f"_{unit}")()
        finally:
            torch.set_num_threads(before)

    def _context(self, checkpointer: Checkpointer | None = None) -> Context:
        spec = self.stage.spec
        device = "cpu" if self.resources.device == "auto" else self.resources.device
        settings = settings_of(spec)
        return Context(
            settings,
            spec["num_actions"],
            0,
            ("probe",),
            torch.device(device),
            checkpointer=checkpointer or Checkpointer(),
        )

    def _task(self) -> Any:
        spec = self.stage.spec
        return find_task(spec["task"] if "task" in spec else spec["tasks"][0])

    def _training_steps(self) -> float:
        trainer = ShortTerm(context := self._context(), self._task()).trainer
        assert trainer.actor is not None
        assert trainer.replay is not None
        trainer.actor.begin(0)
        while not trainer.replay.ready():
            trainer.step()
        trainer.learning = True
        games = context.settings.training.num_envs
        seconds = _timed(trainer.step) / games
        trainer.actor.rest()
        trainer.actor.task.close()
        return seconds

    def _collected_steps(self) -> float:
        clock = _Clock()
        context = self._context(Checkpointer(stop=clock))
        gathering = Gathering(context, context.q_network(), self._task())
        try:
            gathering.run()
        except Stopped:
            gathering.actor.rest()
            gathering.actor.task.close()
        assert gathering.frame is not None
        return clock.seconds / max(gathering.frame - gathering.first_frame, 1)

    def _generator_steps(self) -> float:
        context = self._context()
        noise = _Noise(context.observation.shape, context.device)
        training = generator_for(context.settings).training(context, noise, None, 1)
        training.begin()
        return _timed(training.step) / training.steps_per_call

    def _fisher_batches(self) -> float:
        context = self._context()
        shape = (context.settings.training.batch_size, *context.observation.shape)
        states = torch.zeros(shape, dtype=context.observation.torch_dtype, device=context.device)
        network = context.q_network()
        return _timed(lambda: fisher_diagonal(network, states))

    def _episodes(self) -> float:
        """A game of a network that has learnt nothing; one that plays well may last longer, or end sooner."""
        clock = _Clock(3 * SECONDS_A_PROBE)
        context = self._context(Checkpointer(stop=clock))
        try:
            evaluate(context, context.q_network(), self._task(), 0)
        except Stopped:
            return 2 * clock.seconds / context.settings.evaluation.episodes  # some had not ended: a guess
        return clock.seconds / context.settings.evaluation.episodes


class _Clock:
    """Calls time when a probe has lasted long enough."""

    def __init__(self, limit: float = SECONDS_A_PROBE) -> None:
        self.started, self.limit = time.monotonic(), limit

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def __call__(self) -> bool:
        return self.seconds > self.limit


@dataclass(frozen=True)
class _Noise:
    """States of no task."""

    shape: tuple[int, ...]
    device: torch.device

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return torch.randint(256, (count, *self.shape), generator=rng, device=self.device, dtype=torch.uint8)

    distinct_states = sample_states


def _timed(work: Callable[[], Any]) -> float:
    """Seconds of one call, after a first one that warms up."""
    work()
    clock, calls = _Clock(), 0
    while not clock() or not calls:
        work()
        calls += 1
    return clock.seconds / calls
