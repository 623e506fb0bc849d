"""Playing the arcade games in tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reaper.tasks.arcade import ARCADE
from reaper.tasks.board import NOOP, ArcadeTask
from reaper.tasks.more_arcade import MORE_ARCADE
from reaper.tasks.task import EnvOptions, Step

GAMES = ARCADE | MORE_ARCADE
NUM_ENVS = 8
Policy = Callable[[ArcadeTask], np.ndarray]


def opened(name: str, num_envs: int = NUM_ENVS) -> ArcadeTask:
    task = GAMES[name].open(EnvOptions(num_envs, ArcadeTask.observation))
    assert isinstance(task, ArcadeTask)
    return task


def act(task: ArcadeTask, action: int | np.ndarray) -> Step:
    task.send(np.full(task.num_envs, action) if isinstance(action, int) else action)
    return task.receive()


def played(name: str, seed: int, moves: int = 250) -> tuple[list[Step], np.ndarray]:
    task = opened(name)
    first = task.reset(seed)
    choices = np.random.default_rng(1).integers(task.num_actions, size=(moves, NUM_ENVS))
    return [act(task, row) for row in choices], first


def mean_score(name: str, policy: Policy) -> float:
    task = opened(name, num_envs=32)
    task.reset(11)
    score, over = np.zeros(task.num_envs), np.zeros(task.num_envs, dtype=bool)
    while not over.all():
        step = act(task, policy(task))
        score += np.where(over, 0, step.rewards)
        over |= step.done
    return float(score.mean())


def random_policy() -> Policy:
    choices = np.random.default_rng(0)
    return lambda task: choices.integers(task.num_actions, size=task.num_envs)


def towards(distance: np.ndarray, less: int, more: int) -> np.ndarray:
    return np.where(distance < 0, less, np.where(distance > 0, more, NOOP))
