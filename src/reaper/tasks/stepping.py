"""How the copies of a Gymnasium environment are stepped: in this process, or by worker processes.

Results are the same either way: environment i has the same seed and takes the same actions. A short measurement of one
copy chooses, unless the user does (`--env-workers`): processes pay where a step takes long, as many as there are cores,
or more where an environment mostly waits.

Some environments have a vector implementation of their own (`vector_entry_point` in their spec). It is faster, but its
random numbers are others, so it is used only where the settings ask for it (`training.vector-env`), in training.
"""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from statistics import median
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from reaper.errors import EnvironmentFailed, UserError
from reaper.tasks.env_group import EnvGroup, StepArrays, arrays_in, buffer_size, find_spec, make_copy
from reaper.tasks.env_workers import EnvWorkers, spec_for_workers

MEASURED_STEPS = 50  # at most
MEASURED_SECONDS = 0.05  # at most, after the first steps
WARM_UP = 3  # steps: the first ones load and compile things
# Two processes took 0.65 s to start here: an evaluation of 30 episodes of 200 steps would save more than that on two
# cores. A choice by this estimate; other values were not compared.
MIN_STEP_SECONDS = 3e-4
MIN_WAITING = 4.0  # seconds per second of CPU time from which an environment waits; others may just share their core
MAX_WORKERS = 64


class StepCost(NamedTuple):
    """What one step of one copy takes."""

    seconds: float
    cpu_seconds: float  # of this thread: less if the environment waits for something
    deterministic: bool  # whether the same seed and actions led to the same observations and rewards


class Stepper(Protocol):
    """Copies of one environment; arrays keep their values until the next `receive`."""

    def reset(self, seed: int) -> StepArrays: ...

    def send(self, actions: np.ndarray) -> None: ...

    def receive(self) -> StepArrays: ...

    def close(self) -> None: ...


class InProcess:
    """Steps all environments in this process, one after another."""

    def __init__(self, name: str, num_envs: int) -> None:
        self.name = name
        envs = [make_copy(find_spec(name)) for _ in range(num_envs)]
        layout = _layout(num_envs, envs[0].observation_space)
        self.group = EnvGroup(envs, arrays_in(bytearray(buffer_size(*layout)), *layout))

    def reset(self, seed: int) -> StepArrays:
        with _errors_of(self.name):
            self.group.reset(seed)
        return self.group.arrays

    def send(self, actions: np.ndarray) -> None:
        self.group.arrays.actions[:] = actions

    def receive(self) -> StepArrays:
        with _errors_of(self.name):
            self.group.step()
        return self.group.arrays

    def close(self) -> None:
        self.group.close()


class OwnVectorEnv:
    """The environment's own vector implementation. Its random numbers are not those of single copies."""

    def __init__(self, name: str, num_envs: int) -> None:
        self.name = name
        self.envs = gymnasium.make_vec(name, num_envs, vectorization_mode="vector_entry_point")
        if self.envs.metadata.get("autoreset_mode") is not AutoresetMode.NEXT_STEP:
            raise UserError(
                f"the vector environment of {name} does not reset in the next step; train on copies instead"
            )
        self.actions = np.zeros(num_envs, dtype=np.int64)

    def reset(self, seed: int) -> StepArrays:
        with _errors_of(self.name):
            observations, info = self.envs.reset(seed=seed)
        none = np.zeros(len(self.actions), dtype=bool)
        return self._arrays(observations, np.zeros(len(none)), none, none, info)

    def send(self, actions: np.ndarray) -> None:
        self.actions = actions

    def receive(self) -> StepArrays:
        with _errors_of(self.name):
            return self._arrays(*self.envs.step(self.actions))

    def _arrays(self, observations: Any, *rest: Any) -> StepArrays:
        rewards, terminated, truncated, info = rest
        lives = np.asarray(info.get("lives", np.zeros(len(rewards))), dtype=np.int64)
        return StepArrays(self.actions, observations, rewards, terminated, truncated, lives).copy()

    def close(self) -> None:
        self.envs.close()


def open_stepper(name: str, num_envs: int, workers: int | None) -> Stepper:
    """Opens copies of an environment; `workers`: 0 steps them in this process, None measures what is faster."""
    spec = spec_for_workers(find_spec(name))
    workers = choose_workers(name, num_envs) if workers is None else min(workers, num_envs)
    if spec is None or workers == 0:
        return InProcess(name, num_envs)
    with make_copy(find_spec(name)) as env:
        _, shape, dtype = _layout(num_envs, env.observation_space)
    return EnvWorkers(name, spec, num_envs, shape=shape, dtype=dtype, workers=workers)


def _layout(num_envs: int, space: gymnasium.Space) -> tuple[int, tuple[int, ...], str]:
    return num_envs, space.shape or (), str(space.dtype)


def choose_workers(name: str, num_envs: int) -> int:
    """How many processes step so many copies fastest; 0: none but this."""
    cores = len(os.sched_getaffinity(0))
    if min(cores, num_envs) < 2:
        return 0
    cost = measure(name)
    if cost.seconds < MIN_STEP_SECONDS:
        return 0
    waiting = cost.seconds / max(cost.cpu_seconds, cost.seconds / MAX_WORKERS)
    return min(num_envs, MAX_WORKERS, cores if waiting < MIN_WAITING else math.ceil(cores * waiting))


@cache
def measure(name: str) -> StepCost:
    """Steps two copies with the same seed and actions, at random. One that fails here is said to be cheap and
    deterministic: it will fail again where the error can be reported."""
    with suppress(Exception), make_copy(find_spec(name)) as first, make_copy(find_spec(name)) as second:
        return _measure(first, second)
    return StepCost(0.0, 0.0, True)


def _measure(first: gymnasium.Env, second: gymnasium.Env) -> StepCost:
    rng = np.random.default_rng(0)
    space: Any = first.action_space
    starts, steps, deterministic = True, 0, True
    seconds: list[float] = []  # of each step
    cpu_seconds: list[float] = []
    while steps < WARM_UP + 1 or (steps < MEASURED_STEPS and sum(seconds) < MEASURED_SECONDS):
        if starts:
            seed, starts = int(rng.integers(2**30)), False
            deterministic &= np.array_equal(first.reset(seed=seed)[0], second.reset(seed=seed)[0])
            continue
        action = int(space.start) + int(rng.integers(space.n))
        before, cpu_before = time.perf_counter(), time.thread_time()
        taken = first.step(action)
        if steps >= WARM_UP:
            seconds.append(time.perf_counter() - before)
            cpu_seconds.append(time.thread_time() - cpu_before)
        again = second.step(action)
        deterministic &= np.array_equal(taken[0], again[0]) and taken[1:4] == again[1:4]
        steps, starts = steps + 1, bool(taken[2] or taken[3] or again[2] or again[3])
    # Medians: on a busy machine a few steps are interrupted, and would look as if the environment waited.
    return StepCost(median(seconds), median(cpu_seconds), deterministic)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """An exception of an environment becomes one line that names it, with the traceback."""
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        raise EnvironmentFailed.of(name, f"{type(error).__name__}: {error}", text) from error
