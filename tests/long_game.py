"""A hand-made task with long episodes: every one lasts 45 agent steps, each worth one point.

An observation shows the agent steps since the episode began, the last action and a random number, so that a test can
read off a state where it comes from, and two environments agree only if all their seeds and actions did.
"""

from __future__ import annotations

import numpy as np

from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import Step, Task, VectorTask

EPISODE = 45  # agent steps; the reset that follows takes one more


class LongGame(VectorTask):
    name, num_actions = "long-game", 3
    observation = ObservationSpec((1, 16, 16))
    may_use_gpu = False

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.seeds: list[int] = []  # of every reset so far

    def reset(self, seed: int) -> np.ndarray:
        self.seeds.append(seed)
        self.rng = np.random.default_rng(seed)
        self.age, self.actions = np.zeros(self.num_envs, int), np.zeros(self.num_envs, int)
        self.over = np.zeros(self.num_envs, bool)
        return self._draw()

    def send(self, actions: np.ndarray) -> None:
        self.actions = actions.copy()

    def receive(self) -> Step:
        autoreset, never = self.over, np.zeros(self.num_envs, bool)
        self.age = np.where(autoreset, 0, self.age + 1)
        self.over = self.age == EPISODE
        rewards = (~autoreset).astype(np.float32)
        return Step(self._draw(), rewards, self.over, truncated=never, lost_life=never, autoreset=autoreset)

    def _draw(self) -> np.ndarray:
        images = np.zeros((self.num_envs, 1, 16, 16), np.uint8)
        images[:, 0, 0, 0], images[:, 0, 0, 1] = self.age, self.actions
        images[:, 0, 0, 2] = self.rng.integers(256, size=self.num_envs)
        return images


LONG_GAME = Task("long-game", "Long game", 3, lambda options: LongGame(options.num_envs), LongGame.observation)
