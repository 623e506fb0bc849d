"""Small Gymnasium environments that worker processes can import."""

import os
import signal
from pathlib import Path

import gymnasium
import numpy as np

SIZE = 12


class Walk(gymnasium.Env):
    """Noise that depends on seed and actions; episodes of random length with three lives."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = gymnasium.spaces.Discrete(3, start=1)
    longest = 9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.total, self.end = 0, 0, int(self.np_random.integers(2, self.longest))
        return self._image(), {"lives": 3}

    def step(self, action):
        self.age, self.total = self.age + 1, self.total + int(action)
        ended = self.age >= self.end
        return self._image(), self.total / 3, ended and self.end % 2 == 0, ended, {"lives": 3 - self.age // 3}

    def _image(self):
        return ((self.np_random.integers(0, 200, (SIZE, SIZE)) + self.total) % 256).astype(np.uint8)


class Raises(Walk):
    """Raises an exception after so many steps of this copy, if a file is there."""

    def __init__(self, file, after):
        self.file, self.after, self.steps = Path(file), after, 0

    def step(self, action):
        self.steps += 1
        if self.steps > self.after and self.file.exists():
            raise RuntimeError("the arm is stuck")
        return super().step(action)


class Dies(Walk):
    """Its process is killed in the second step."""

    def step(self, action):
        if self.age == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Unseeded(Walk):
    """Ignores its seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=int.from_bytes(os.urandom(4), "little"))
