"""A hand-made game whose returns can be worked out on paper.

One action, and an episode that is written down step by step: so a state's value is the discounted sum of the rewards
that follow it. Each state is a bright column, whose place is the number of the step.
"""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np

SIZE = 16  # pixels per side


class Moment(NamedTuple):
    """What one step of the script leads to."""

    reward: float
    lives: int = 1  # that are left after it
    terminated: bool = False


class Corridor(gymnasium.Env):
    """Walks through the script, whatever the action; at its end it starts again from the first column.

    With `staggered`, environments with consecutive seeds start their first episodes at consecutive steps.
    """

    observation_space = gymnasium.spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, script: tuple[Moment, ...], lives: int = 1, staggered: bool = False) -> None:
        self.script, self.lives, self.staggered = script, lives, staggered

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = seed % len(self.script) if self.staggered and seed is not None else 0
        return self._image(), {"lives": self.lives}

    def step(self, action):
        moment = self.script[self.at]
        self.at = (self.at + 1) % len(self.script)
        return self._image(), moment.reward, moment.terminated, False, {"lives": moment.lives}

    def _image(self) -> np.ndarray:
        image = np.zeros((SIZE, SIZE), np.uint8)
        image[:, 3 * self.at : 3 * self.at + 3] = 255
        return image


def states(frame_stack: int, count: int) -> np.ndarray:
    """What an agent sees at the first steps of an episode: (count, frame_stack, SIZE, SIZE) uint8."""
    game = Corridor((Moment(0.0),) * count)
    frames = [game.reset()[0], *(game.step(0)[0] for _ in range(count - 1))]
    return np.stack([[frames[max(0, at - back)] for back in range(frame_stack - 1, -1, -1)] for at in range(count)])
