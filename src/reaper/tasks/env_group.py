"""Copies of a Gymnasium environment, stepped one after another, and the arrays that they read and write.

The arrays may lie in memory that processes share (env_workers.py). This module imports no torch, so that such processes
start quickly.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from reaper.tasks.spaces import as_array

ALIGNMENT = 64  # bytes: a cache line


def find_spec(name: str) -> EnvSpec:
    """The spec of a registered environment. A module before a colon is imported first, as Gymnasium does it."""
    module, _, env_id = name.rpartition(":")
    if module:
        importlib.import_module(module)
    return gymnasium.spec(env_id)


def make_copy(spec: EnvSpec) -> gymnasium.Env:
    """One copy of an environment, with observations in one array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the passive checker repeats itself for every copy
        return as_array(gymnasium.make(spec))


class StepArrays(NamedTuple):
    """Actions, and what they led to, one row per environment."""

    actions: np.ndarray  # (num_envs,) int64, as the environment counts them
    observations: np.ndarray  # (num_envs, *space.shape), as the environment emits them
    rewards: np.ndarray  # (num_envs,) float64
    terminated: np.ndarray  # (num_envs,) bool
    truncated: np.ndarray  # (num_envs,) bool
    lives: np.ndarray  # (num_envs,) int64, where the environment reports them (as Atari environments do), else zeros

    def rows(self, start: int, stop: int) -> StepArrays:
        """Views of some environments."""
        return StepArrays(*(array[start:stop] for array in self))

    def copy(self) -> StepArrays:
        return StepArrays(*(array.copy() for array in self))


def arrays_in(buffer: memoryview | bytearray, num_envs: int, shape: Sequence[int], dtype: str) -> StepArrays:
    """Arrays that lie in a buffer of `buffer_size` bytes."""
    found, offset = [], 0
    for each_shape, each_dtype in _layout(num_envs, shape, dtype):
        found.append(np.ndarray(each_shape, each_dtype, buffer, offset))
        offset += _aligned(found[-1].nbytes)
    return StepArrays(*found)


def buffer_size(num_envs: int, shape: Sequence[int], dtype: str) -> int:
    layout = _layout(num_envs, shape, dtype)
    return sum(_aligned(math.prod(each) * np.dtype(kind).itemsize) for each, kind in layout)


def _layout(num_envs: int, shape: Sequence[int], dtype: str) -> list[tuple[tuple[int, ...], str]]:
    one = (num_envs,)
    return [(one, "int64"), ((num_envs, *shape), dtype), (one, "float64"), (one, "bool"), (one, "bool"), (one, "int64")]


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


class EnvGroup:
    """Steps its environments one after another. They reset as in `AutoresetMode.NEXT_STEP`."""

    def __init__(self, envs: Sequence[gymnasium.Env], arrays: StepArrays) -> None:
        self.envs, self.arrays = envs, arrays

    def reset(self, seed: int) -> None:
        """Environment i gets the seed `seed + i`."""
        for i, env in enumerate(self.envs):
            self._reset(i, env, seed + i)

    def step(self) -> None:
        arrays = self.arrays
        for i, env in enumerate(self.envs):
            if arrays.terminated[i] or arrays.truncated[i]:
                self._reset(i, env)
                continue
            observation, reward, terminated, truncated, info = env.step(arrays.actions[i])
            arrays.observations[i], arrays.rewards[i], arrays.lives[i] = observation, reward, info.get("lives", 0)
            arrays.terminated[i], arrays.truncated[i] = terminated, truncated

    def _reset(self, i: int, env: gymnasium.Env, seed: int | None = None) -> None:
        arrays = self.arrays
        arrays.observations[i], info = env.reset(seed=seed)
        arrays.rewards[i], arrays.lives[i] = 0.0, info.get("lives", 0)
        arrays.terminated[i] = arrays.truncated[i] = False

    def close(self) -> None:
        for env in self.envs:
            env.close()
