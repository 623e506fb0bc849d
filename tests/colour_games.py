"""Two games that look the same in grey: apples are to be caught, bombs to be avoided, and only the background's colour
tells which are falling."""

import numpy as np

from reaper.tasks.arcade import Catch
from reaper.tasks.gymnasium import to_frames
from reaper.tasks.task import Task


class Falling(Catch):
    """Catch with a coloured background, in colour or in grey as the agent asks."""

    colour = (0, 0, 0)
    sign = 1

    def __init__(self, options):
        super().__init__(options.num_envs)
        self.observation = options.observation

    def move(self, actions):
        rewards, lost_life = super().move(actions)
        return self.sign * rewards, lost_life

    def _observations(self):
        grey = super()._observations()[:, 0]
        images = np.repeat(grey[..., None], 3, axis=3)
        images[grey == self.background] = self.colour
        return to_frames(images, self.observation)


class Apples(Falling):
    name, title, colour = "apples", "Apples", (150, 0, 0)  # as bright as catch's background, 45


class Bombs(Falling):
    name, title, colour, sign = "bombs", "Bombs", (0, 77, 0), -1


TASKS = {game.name: Task(game.name, game.title, 6, game) for game in (Apples, Bombs)}
