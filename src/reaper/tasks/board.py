"""What the small games share: an 8x8 lattice, six actions, episodes, random numbers and drawing."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import Step, Task, VectorTask

CELLS = 8
CELL_PIXELS = 2
FRAME_SIZE = CELLS * CELL_PIXELS
MAX_EPISODE_STEPS = 200  # agent steps; the reset counts as one

NOOP, UP, DOWN, LEFT, RIGHT, FIRE = range(6)
ROW_CHANGE = np.array([0, -1, 1, 0, 0, 0])
COLUMN_CHANGE = np.array([0, 0, 0, -1, 1, 0])


def background(cells: np.ndarray) -> np.ndarray:
    """Turns one grey level per lattice cell, broadcast to (8, 8), into the pixels of a frame."""
    whole = np.broadcast_to(cells, (CELLS, CELLS)).astype(np.uint8)
    return whole.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)


def covers(start: np.ndarray, size: int, place: np.ndarray) -> np.ndarray:
    """Whether `size` cells from `start` on include a place, in one dimension."""
    return (place >= start) & (place < start + size)


ROWS, COLUMNS = np.indices((CELLS, CELLS))


class ArcadeTask(VectorTask):
    """Episodes, random numbers and drawing; a subclass adds the rules and the look of its game.

    All environments move at every step, also those that are reset: every random number is drawn for all of them, used
    or not, so that no environment depends on the actions in another.
    """

    title: str
    about: str
    background: np.ndarray  # (16, 16) uint8
    lives: int | None = None  # None: only the time limit ends an episode
    num_actions = 6
    observation = ObservationSpec((1, FRAME_SIZE, FRAME_SIZE))
    may_use_gpu = False

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.lives_left = np.zeros(num_envs, dtype=np.int64)
        self._all_envs = np.arange(num_envs)
        self._episode_steps = np.zeros(num_envs, dtype=np.int64)
        self._done = np.zeros(num_envs, dtype=bool)
        self._actions: np.ndarray | None = None

    @abstractmethod
    def begin(self, mask: np.ndarray) -> None:
        """Starts an episode in the environments of `mask`."""

    @abstractmethod
    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves every environment by one step; returns rewards and whether a life was lost."""

    @abstractmethod
    def draw(self, frames: np.ndarray) -> None:
        """Paints the sprites of every environment onto its background."""

    def reset(self, seed: int) -> np.ndarray:
        self.rng = np.random.default_rng(seed)
        self._actions = None
        self._start(np.ones(self.num_envs, dtype=bool))
        return self._observations()

    def send(self, actions: np.ndarray) -> None:
        self._actions = np.array(actions, dtype=np.int64)

    def receive(self) -> Step:
        if self._actions is None:
            raise RuntimeError(f"{self.name}: receive() without a send() before it")
        autoreset = self._done
        rewards, lost_life = self.move(self._actions)
        self._actions = None
        self._episode_steps += 1
        self.lives_left -= lost_life
        out_of_lives = self.lives_left <= 0 if self.lives is not None else np.zeros(self.num_envs, dtype=bool)
        terminated = out_of_lives & ~autoreset
        truncated = (self._episode_steps >= MAX_EPISODE_STEPS) & ~out_of_lives & ~autoreset
        self._start(autoreset)  # these have moved, too, from a state that is discarded now
        self._done = terminated | truncated
        return Step(
            observations=self._observations(),
            rewards=np.where(autoreset, 0, rewards).astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            lost_life=lost_life & ~autoreset,
            autoreset=autoreset,
        )

    def _start(self, mask: np.ndarray) -> None:
        self.begin(mask)
        self._episode_steps[mask] = 1
        self.lives_left[mask] = self.lives or 0
        self._done = self._done & ~mask

    def _observations(self) -> np.ndarray:
        frames = np.repeat(self.background[None], self.num_envs, axis=0)
        self.draw(frames)
        return frames[:, None]  # one channel

    def counters(self, count: int) -> np.ndarray:
        """Integers that a game keeps track of: one row per quantity, one column per environment."""
        return np.zeros((count, self.num_envs), dtype=np.int64)

    def random_int(self, high: int) -> np.ndarray:
        """One number from 0 to `high` - 1 for each environment."""
        return self.rng.integers(high, size=self.num_envs)

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
        """Paints a rectangle of cells in each environment; what leaves on one side comes back on the other."""
        env = self._all_envs if where is None else self._all_envs[where]
        rows, columns, shades = (np.broadcast_to(each, self.num_envs)[env] for each in (row, column, shade))
        cells = frames.reshape(self.num_envs, CELLS, CELL_PIXELS, CELLS, CELL_PIXELS)
        for down in range(height):
            for right in range(width):
                cells[env, (rows + down) % CELLS, :, (columns + right) % CELLS, :] = shades[:, None, None]


def arcade_task(game: type[ArcadeTask]) -> Task:
    return Task(
        name=game.name,
        title=game.title,
        num_actions=game.num_actions,
        open=lambda options: game(options.num_envs),
        observation=game.observation,
        about=game.about,
    )
