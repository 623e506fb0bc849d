"""A Gymnasium environment as people see it: the pictures that it renders, for videos of tasks with vectors."""

from __future__ import annotations

import os
import warnings

import gymnasium
import numpy as np

from reaper.errors import UserError
from reaper.tasks.env_group import find_spec
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import Step, VectorTask


class RenderedTask(VectorTask):
    """One copy of an environment; its observations are what it renders, as images (3, height, width).

    The same seed and actions lead to the same episode as in training. Dimensions of rendered pictures are known once it
    has been reset.
    """

    num_envs = 1

    def __init__(self, name: str) -> None:
        self.name = name
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # else pygame prints that it has found no screen
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._env = gymnasium.make(find_spec(name), render_mode="rgb_array")
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise UserError(f"{name} cannot be rendered: {str(error).splitlines()[0]}") from None
        actions = self._env.action_space
        assert isinstance(actions, gymnasium.spaces.Discrete)
        self.num_actions, self._first_action = int(actions.n), int(actions.start)
        self._done = False

    def reset(self, seed: int) -> np.ndarray:
        self._env.reset(seed=seed % 2**30)
        self._done = False
        images = self._rendered()
        self.observation = ObservationSpec(images.shape[1:])
        return images

    def send(self, actions: np.ndarray) -> None:
        self._action = int(actions[0]) + self._first_action

    def receive(self) -> Step:
        autoreset, reward, terminated, truncated = self._done, 0.0, False, False
        if autoreset:
            self._env.reset()
        else:
            _, reward, terminated, truncated, _ = self._env.step(self._action)
        self._done = bool(terminated or truncated)
        return Step(
            observations=self._rendered(),
            rewards=np.array([reward], np.float32),
            terminated=np.array([bool(terminated)]),
            truncated=np.array([bool(truncated) and not terminated]),
            lost_life=np.array([False]),
            autoreset=np.array([autoreset]),
        )

    def _rendered(self) -> np.ndarray:
        try:
            image = np.asarray(self._env.render())
        except (gymnasium.error.Error, ImportError) as error:
            raise UserError(f"{self.name} cannot be rendered: {str(error).splitlines()[0]}") from None
        if image.ndim != 3 or image.dtype != np.uint8:
            raise UserError(f"{self.name} renders no images")
        return np.moveaxis(image, -1, 0)[None]

    def close(self) -> None:
        self._env.close()
