"""What the small games share: an 8x8 lattice, six actions, counting, starting anew, chance and drawing."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from reaper.tasks.task import Step, VectorTask

CELLS = 8
CELL_PIXELS = 2
FRAME_SIZE = CELLS * CELL_PIXELS
LONGEST_GAME = 200  # agent steps, the first one included

NOTHING, UP, DOWN, LEFT, RIGHT, FIRE = range(6)
ROW_CHANGE = np.array([0, -1, 1, 0, 0, 0])
COLUMN_CHANGE = np.array([0, 0, 0, -1, 1, 0])


def background(cells: np.ndarray) -> np.ndarray:
    """Turns the grey of each lattice cell, broadcast to (8, 8), into the pixels of a frame."""
    whole = np.broadcast_to(cells, (CELLS, CELLS)).astype(np.uint8)
    return whole.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)


ROWS, COLUMNS = np.indices((CELLS, CELLS))


class ArcadeTask(VectorTask):
    """What the six games share: counting, starting anew, chance and drawing. A game adds its rules and its look."""

    title: str
    about: str
    background: np.ndarray  # (16, 16) uint8
    lives: int | None = None  # None: nothing but the time limit ends the game
    num_actions = 6
    frame_size = FRAME_SIZE
    leaves_gpu_alone = True

    def __init__(self, num_envs: int, frame_size: int = FRAME_SIZE) -> None:
        if frame_size != FRAME_SIZE:
            raise ValueError(f"{self.name} has frames of {FRAME_SIZE}x{FRAME_SIZE} only, not {frame_size}: ask for 16")
        self.num_envs = num_envs
        self.lives_left = np.zeros(num_envs, dtype=np.int64)
        self._every_game = np.arange(num_envs)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._done = np.zeros(num_envs, dtype=bool)
        self._sent: np.ndarray | None = None

    @abstractmethod
    def begin(self, mask: np.ndarray) -> None:
        """Puts the games in `mask` at their start."""

    @abstractmethod
    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves every game by one frame; returns its reward and whether it lost a life."""

    @abstractmethod
    def draw(self, frames: np.ndarray) -> None:
        """Paints every game's sprites onto its background."""

    def reset(self, seed: int) -> np.ndarray:
        self.random = np.random.default_rng(seed)
        self._sent = None
        self._start(np.ones(self.num_envs, dtype=bool))
        return self._frames()

    def send(self, actions: np.ndarray) -> None:
        self._sent = np.array(actions, dtype=np.int64)

    def receive(self) -> Step:
        if self._sent is None:
            raise RuntimeError(f"{self.name}: receive() without a send() before it")
        autoreset = self._done
        rewards, lost_life = self.move(self._sent)
        self._sent = None
        self._steps += 1
        self.lives_left -= lost_life
        out_of_lives = self.lives_left <= 0 if self.lives is not None else np.zeros(self.num_envs, dtype=bool)
        ended = (out_of_lives | (self._steps >= LONGEST_GAME)) & ~autoreset
        truncated = ended & ~out_of_lives
        # Games that begin anew have moved too, from a state that is now thrown away.
        self._start(autoreset)
        self._done = ended
        rewards = np.where(autoreset, 0, rewards).astype(np.float32)
        return Step(self._frames(), rewards, ended.copy(), truncated, lost_life & ~autoreset, autoreset)

    def _start(self, mask: np.ndarray) -> None:
        self.begin(mask)
        self._steps[mask] = 1
        self.lives_left[mask] = self.lives or 0
        self._done = self._done & ~mask

    def _frames(self) -> np.ndarray:
        frames = np.repeat(self.background[None], self.num_envs, axis=0)
        self.draw(frames)
        return frames

    def counters(self, how_many: int) -> np.ndarray:
        """One row of whole numbers for each thing a game keeps track of, one column a game."""
        return np.zeros((how_many, self.num_envs), dtype=np.int64)

    def chance(self, choices: int) -> np.ndarray:
        """One number from 0 to `choices` - 1 for each game."""
        return self.random.integers(choices, size=self.num_envs)

    def paint(
        self,
        frames: np.ndarray,
        row: np.ndarray | int,
        column: np.ndarray | int,
        shade: np.ndarray | int,
        height: int = 1,
        width: int = 1,
        where: np.ndarray | None = None,
    ) -> None:
        """Paints a rectangle of cells in each game; what leaves at one side comes back at the other."""
        game = self._every_game if where is None else self._every_game[where]
        rows, columns, shades = (np.broadcast_to(each, self.num_envs)[game] for each in (row, column, shade))
        cells = frames.reshape(self.num_envs, CELLS, CELL_PIXELS, CELLS, CELL_PIXELS)
        for down in range(height):
            for right in range(width):
                cells[game, (rows + down) % CELLS, :, (columns + right) % CELLS, :] = shades[:, None, None]
