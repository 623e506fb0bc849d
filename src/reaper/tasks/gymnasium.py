"""Any Gymnasium environment with image observations and discrete actions."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from reaper.errors import UserError, unknown
from reaper.tasks.task import Step, Task, VectorTask

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def to_frames(images: np.ndarray, frame_size: int) -> np.ndarray:
    """Grey, resized images: (N, height, width[, 1 or 3]) uint8 -> (N, size, size) uint8."""
    grey = images
    if images.ndim == 4:
        grey = images[..., 0] if images.shape[-1] == 1 else images.astype(np.float32) @ LUMA
    if grey.shape[1:] == (frame_size, frame_size):
        return np.ascontiguousarray(np.rint(grey).astype(np.uint8))
    pixels = torch.from_numpy(np.ascontiguousarray(grey, dtype=np.float32))[:, None]
    shrinks = min(grey.shape[1:]) >= frame_size
    mode: dict[str, Any] = {"mode": "area"} if shrinks else {"mode": "nearest-exact"}
    resized = torch.nn.functional.interpolate(pixels, size=(frame_size, frame_size), **mode)
    return resized[:, 0].round().clamp(0, 255).to(torch.uint8).numpy()


class GymnasiumTask(VectorTask):
    """Copies of a Gymnasium environment, stepped one after another."""

    def __init__(self, name: str, num_envs: int, frame_size: int) -> None:
        self.name, self.num_envs, self.frame_size = name, num_envs, frame_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the passive checker repeats itself for every copy
            self._games = SyncVectorEnv(
                [lambda: gymnasium.make(name) for _ in range(num_envs)], autoreset_mode=AutoresetMode.NEXT_STEP
            )
        self.num_actions = int(self._games.single_action_space.n)  # type: ignore[attr-defined]
        self._first = int(getattr(self._games.single_action_space, "start", 0))

    def reset(self, seed: int) -> np.ndarray:
        images, info = self._games.reset(seed=seed % 2**30)
        self._was_ended = np.zeros(self.num_envs, dtype=bool)
        self._lives = self._read_lives(info)
        return to_frames(images, self.frame_size)

    def send(self, actions: np.ndarray) -> None:
        self._sent = actions + self._first

    def receive(self) -> Step:
        images, rewards, terminated, truncated, info = self._games.step(self._sent)
        autoreset, ended = self._was_ended, terminated | truncated
        lives = self._read_lives(info)
        lost_life = (lives < self._lives) & ~autoreset
        self._was_ended, self._lives = ended, lives
        frames = to_frames(images, self.frame_size)
        return Step(frames, rewards.astype(np.float32), ended, truncated & ~terminated, lost_life, autoreset)

    def _read_lives(self, info: dict[str, Any]) -> np.ndarray:
        """Lives where the environment tells them (as Atari environments do), else zeros."""
        return np.asarray(info.get("lives", np.zeros(self.num_envs)), dtype=np.int64).copy()

    def close(self) -> None:
        self._games.close()


def gymnasium_task(name: str) -> Task:
    """A registered Gymnasium environment as a task; refuses what cannot be one, with the reason."""
    try:
        environment = gymnasium.make(name)
    except gymnasium.error.Error:
        raise unknown("task", name, gymnasium.registry) from None
    except ImportError as missing:
        raise UserError(f"{name} cannot be opened: {missing}") from None
    observation, action = environment.observation_space, environment.action_space
    environment.close()
    if not isinstance(action, gymnasium.spaces.Discrete):
        raise UserError(f"{name} has {type(action).__name__} actions; a task needs discrete ones")
    shape = observation.shape or ()
    image = isinstance(observation, gymnasium.spaces.Box) and observation.dtype == np.uint8
    if not image or len(shape) not in (2, 3) or (len(shape) == 3 and shape[-1] not in (1, 3)):
        raise UserError(f"{name} observes {observation}; a task needs uint8 images (height, width[, 1 or 3])")
    return Task(
        name, name, int(action.n), lambda num_envs, size: GymnasiumTask(name, num_envs, size), about="Gymnasium"
    )
