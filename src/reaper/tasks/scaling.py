"""Scaling of vector observations: what a network sees of numbers in any unit.

    x  ->  z = (x - centre) / unit  ->  sign(z) log(1 + |z|)

A task's centres and units are measured once, when a study is planned: mean and standard deviation of each number while
random actions are taken, always the same ones, so every condition and seed has the same scale. They become part of the
settings, and so of each stage, pack and long-term memory: an agent sees the same numbers wherever it is loaded.

Declared bounds are not used. Those of a Gymnasium environment are often infinite, or ten times as wide as what is ever
observed (the velocities of LunarLander), and then a network can hardly tell states apart. Random play in turn does not
go as far as a trained agent does: hence the logarithm, which is the identity around zero and keeps far values small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from reaper.errors import UserError
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import EnvOptions, Step, Task, VectorTask

NUM_ENVS, STEPS = 8, 250  # of the random play that is measured
DIGITS = 3  # of a measured number: rounding errors of another machine must not change the digest of a stage


@dataclass(frozen=True)
class Scale:
    """One centre and one unit per number of a task's observations."""

    centres: tuple[float, ...]
    units: tuple[float, ...]

    @classmethod
    def of(cls, task: str, numbers: Sequence[Sequence[float]], features: int) -> Scale:
        """The scale that settings hold for a task; one that does not fit its observations is refused."""
        centres, units = (tuple(part) for part in numbers)
        finite = np.isfinite([*centres, *units]).all()
        if not (finite and len(centres) == len(units) == features and min(units) > 0):
            raise UserError(f"the scale of {task} does not fit observations of {features} numbers")
        return cls(centres, units)

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """(N, features) of any type -> (N, features) float32."""
        z = (vectors.astype(np.float64) - self.centres) / self.units
        return (np.sign(z) * np.log1p(np.abs(z))).astype(np.float32)


@lru_cache(maxsize=256)
def measure_scale(task: Task) -> Scale:
    """Mean and standard deviation of a task's observations under random actions."""
    assert task.observation is not None
    envs = task.open(EnvOptions(NUM_ENVS, task.observation, env_workers=0))
    rng = np.random.default_rng(0)
    try:
        seen = [envs.reset(0).astype(np.float64)]
        for _ in range(STEPS):
            envs.send(rng.integers(task.num_actions, size=NUM_ENVS))
            seen.append(envs.receive().observations.astype(np.float64))
    finally:
        envs.close()
    vectors = np.concatenate(seen)
    if not np.isfinite(vectors).all():
        raise UserError(f"{task.name} emits observations that are not finite numbers")
    deviations = vectors.std(axis=0)
    # A number that random play does not change has no unit to measure.
    units = np.where(deviations > 1e-6 * np.maximum(1, np.abs(vectors).max(axis=0)), deviations, 1.0)
    return Scale(_rounded(vectors.mean(axis=0)), _rounded(units))


def _rounded(numbers: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{number:.{DIGITS - 1}e}") for number in numbers)


class ScaledVectors(VectorTask):
    """A task with vector observations as an agent sees it: scaled, and padded with zeros to the sequence's length."""

    def __init__(self, task: VectorTask, scale: Scale, observation: ObservationSpec) -> None:
        self._task, self._scale, self.observation = task, scale, observation
        self.name, self.num_envs, self.num_actions = task.name, task.num_envs, task.num_actions
        self.may_use_gpu = task.may_use_gpu

    def reset(self, seed: int) -> np.ndarray:
        return pad(self._scale.apply(self._task.reset(seed)), self.observation)

    def send(self, actions: np.ndarray) -> None:
        self._task.send(actions)

    def receive(self) -> Step:
        step = self._task.receive()
        return step.with_observations(pad(self._scale.apply(step.observations), self.observation))

    def close(self) -> None:
        self._task.close()


def pad(vectors: np.ndarray, observation: ObservationSpec) -> np.ndarray:
    """(N, features) with zeros after the task's own features: (N, *observation.shape)."""
    return np.pad(vectors, ((0, 0), (0, observation.size - vectors.shape[1])))
