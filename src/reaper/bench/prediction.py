"""The duration of a whole run of RePR, predicted from what `reaper bench` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reaper.bench.measurement import (
    BARE_EMULATION,
    CHECKPOINT,
    EVALUATION,
    EVALUATION_WITH_TRAINING,
    EVALUATIONS_WITH_GENERATOR,
    GENERATION,
    GENERATOR,
    LONG_TERM,
    SHORT_TERM,
    TRAINING_WITH_EVALUATION,
    Measurement,
)
from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.learning.evaluation.concurrent import MAX_DEFERRED
from reaper.storage.checkpoints import Interval

TOTAL = "total"
SAME_STEPS_BARE = "bare emulation of as many steps"


@dataclass(frozen=True)
class Prediction:
    """Seconds of each part of RePR on some tasks, at the full budget of the settings."""

    settings: Settings
    measurements: Sequence[Measurement]
    set_up: Mapping[str, float]  # seconds of what is not a speed: set-up, one evaluation, one checkpoint
    tasks: Sequence[str]

    def hours(self) -> dict[str, float]:
        return {part: seconds / 3600 for part, seconds in self.seconds().items()}

    def seconds(self) -> dict[str, float]:
        settings, set_up, later = self.settings, self.set_up, self.tasks[1:]
        short, long = settings.short_term.agent_steps, settings.long_term.agent_steps
        collected = min(settings.training.replay_capacity, short)
        seconds = {
            SHORT_TERM: self._training(SHORT_TERM, short, self.tasks),
            LONG_TERM: self._training(LONG_TERM, long, later),
            "collecting states": collected / self._rate(BARE_EMULATION, self.tasks[0]),
            GENERATOR: len(self.tasks) * self._generator_seconds,
            GENERATION: 2 * len(later) * settings.generator.pseudo_items / self._rate(GENERATION),
            EVALUATION: self._all_evaluations(),
            "set-up": len(self.tasks) * (set_up[SHORT_TERM] + set_up[GENERATOR]) + len(later) * set_up[LONG_TERM],
        }
        seconds["checkpoints"] = sum(seconds.values()) / (Interval().seconds or 600) * set_up[CHECKPOINT]
        bare = self._training(BARE_EMULATION, short, self.tasks) + self._training(BARE_EMULATION, long, later)
        return {**seconds, TOTAL: sum(seconds.values()), SAME_STEPS_BARE: bare}

    def _rate(self, what: str, task: str = "") -> float:
        return next(m.rate for m in self.measurements if m.what == what and m.task in ("", task))

    def _training(self, what: str, agent_steps: int, tasks: Sequence[str]) -> float:
        return sum(agent_steps / self._rate(what, task) for task in tasks)

    @property
    def _generator_seconds(self) -> float:
        return generator_for(self.settings).steps / self._rate(GENERATOR)

    def _all_evaluations(self) -> float:
        short, long = self.settings.short_term.agent_steps, self.settings.long_term.agent_steps
        total = sum(self.evaluation_seconds(SHORT_TERM, short, [task], task) for task in self.tasks)
        for number, task in enumerate(self.tasks[1:], start=2):
            total += self.evaluation_seconds(LONG_TERM, long, self.tasks[:number], task)
        return total

    def evaluation_seconds(self, what: str, agent_steps: int, evaluated: Sequence[str], task: str) -> float:
        """Seconds that evaluations of some tasks add to training on one."""
        evaluations = -(-agent_steps // self.settings.evaluation.interval)
        slowed = next((m for m in self.measurements if m.what == TRAINING_WITH_EVALUATION), None)
        if slowed is None:  # training waits for every evaluation
            return evaluations * sum(self.set_up[f"{EVALUATION} {name}"] for name in evaluated)
        training, share = agent_steps / self._rate(what, task), min(slowed.share or 1.0, 1.0)
        seconds = len(evaluated) * self.set_up[EVALUATION_WITH_TRAINING]
        if what == SHORT_TERM:
            return evaluations * added_by_concurrent(training / evaluations, seconds, share)
        deferred, later_seconds = (
            min(evaluations, MAX_DEFERRED // len(evaluated)),
            len(evaluated) * self.set_up[EVALUATIONS_WITH_GENERATOR],
        )
        concurrent = evaluations - deferred
        return added_by_deferred(
            training=training * concurrent / evaluations,
            concurrent=concurrent * seconds,
            share=share,
            speed_up=later_seconds / seconds,
            deferred=deferred * later_seconds,
            generator=self._generator_seconds,
        )


def added_by_concurrent(training: float, evaluation: float, share: float) -> float:
    """Seconds added to `training` seconds between two evaluations, when an evaluation takes `evaluation` seconds
    alongside and leaves training this share of its speed. If training ends first, it waits for the rest."""
    if share * evaluation <= training:
        return (1 - share) * evaluation
    return evaluation - training  # an upper bound: the rest has all cores to itself


def added_by_deferred(
    *, training: float, concurrent: float, share: float, speed_up: float, deferred: float, generator: float
) -> float:
    """Seconds added to a stage whose generator training follows and takes `generator` seconds. Meanwhile the `deferred`
    seconds of evaluations run, and what is left of the `concurrent` ones, at `speed_up` times their seconds. Only what
    does not end before the generator's training is added."""
    alongside = min(concurrent, training / share)
    left = (concurrent - alongside) * speed_up + deferred
    return (1 - share) * alongside + max(0.0, left - generator)
