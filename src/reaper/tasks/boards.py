"""Boards: small grids of cells with any number of channels, such as those of MinAtar and MiniGrid.

A task emits a board as uint8 (channels, height, width), its values spread over 0 to 255. An agent sees an image of it,
so that everything made for images serves boards, too:

- cells are enlarged to squares of pixels, so that a side has about 16 pixels, as in our arcade games;
- the image is square, and its side a multiple of what the generator's layers need; the rest is black;
- boards of one sequence may differ in size and channels: smaller ones are padded, at the right, at the bottom and with
  empty channels.
"""

from __future__ import annotations

import numpy as np

from reaper.tasks.observation import SMALL_FRAME, ObservationSpec
from reaper.tasks.task import Step, VectorTask

PIXELS = 16  # about as many per side
STEP, LARGE_STEP = 4, 12  # the side of a small image is a multiple of one, of a large one of the other


def image_side(cells: int) -> int:
    """The side of the image of a board with so many cells per side."""
    side = cells * max(1, round(PIXELS / cells))
    step = STEP if side < SMALL_FRAME else LARGE_STEP
    return -(-side // step) * step


def board_images(boards: np.ndarray, image: ObservationSpec) -> np.ndarray:
    """(N, channels, height, width) -> (N, *image.shape): enlarged by the largest whole number that fits, and padded."""
    pixels = image.shape[1] // max(boards.shape[2:])
    enlarged = boards.repeat(pixels, axis=2).repeat(pixels, axis=3)
    found = np.zeros((len(boards), *image.shape), dtype=np.uint8)
    found[:, : enlarged.shape[1], : enlarged.shape[2], : enlarged.shape[3]] = enlarged
    return found


class BoardImages(VectorTask):
    """A task with boards as an agent sees it."""

    def __init__(self, task: VectorTask, observation: ObservationSpec) -> None:
        self._task, self.observation = task, observation
        self.name, self.num_envs, self.num_actions = task.name, task.num_envs, task.num_actions
        self.may_use_gpu = task.may_use_gpu

    def reset(self, seed: int) -> np.ndarray:
        return board_images(self._task.reset(seed), self.observation)

    def send(self, actions: np.ndarray) -> None:
        self._task.send(actions)

    def receive(self) -> Step:
        step = self._task.receive()
        return step.with_observations(board_images(step.observations, self.observation))

    def close(self) -> None:
        self._task.close()
