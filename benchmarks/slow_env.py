"""An environment whose step takes a given time, for stepping.py; worker processes import it."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

EPISODE = 200  # steps


class SlowEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Computes, or only waits, for so many milliseconds per step."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, milliseconds: float, waits: bool = False) -> None:
        self.seconds, self.waits, self.age = milliseconds / 1000, waits, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.age = 0
        return self._image(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        end = time.thread_time() + self.seconds
        if self.waits:
            time.sleep(self.seconds)
        while not self.waits and time.thread_time() < end:
            pass
        self.age += 1
        return self._image(), float(action), self.age == EPISODE, False, {}

    def _image(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (84, 84), dtype=np.uint8)
