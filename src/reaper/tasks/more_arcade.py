"""Six more small games, so that twelve can be learnt in sequence. They follow the rules of arcade.py: one observation,
one meaning of the actions, whole cells, and a state that two stacked frames show.
"""

from __future__ import annotations

import numpy as np

from reaper.tasks.board import (
    CELLS,
    COLUMN_CHANGE,
    COLUMNS,
    FIRE,
    ROW_CHANGE,
    ROWS,
    UP,
    ArcadeTask,
    arcade_task,
    background,
    covers,
)
from reaper.tasks.snake import Snake
from reaper.tasks.task import Task


class Bricks(ArcadeTask):
    name = "bricks"
    title = "Bricks"
    about = "Bounce the ball off the paddle into the bricks: +1 for a brick, -1 for a ball missed."
    background = background(np.where(ROWS // 2 % 2, 30, 100))
    paddle_width = 2
    paddle_row = 6  # two cells tall
    top_row, wall_rows, brick_width = 1, 2, 2
    launch_row = 3

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.paddle, self.ball_row, self.ball_column, self.fall, self.drift = self.counters(5)
        self.bricks = np.zeros((num_envs, self.wall_rows, CELLS // self.brick_width), dtype=bool)

    def begin(self, mask: np.ndarray) -> None:
        self.paddle[mask] = self.random_int(CELLS - self.paddle_width + 1)[mask]
        self.bricks[mask] = True
        self._launch(mask)

    def _launch(self, mask: np.ndarray) -> None:
        # A new ball heads for the middle, so that its heading shows before it has moved.
        self.ball_row[mask], self.fall[mask] = self.launch_row, 1
        self.ball_column[mask] = self.random_int(CELLS)[mask]
        self.drift[mask] = np.where(self.ball_column < CELLS // 2, 1, -1)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.paddle[:] = (self.paddle + COLUMN_CHANGE[actions]).clip(0, CELLS - self.paddle_width)
        self.drift[(self.ball_column + self.drift < 0) | (self.ball_column + self.drift >= CELLS)] *= -1
        self.ball_row += self.fall
        self.ball_column += self.drift
        broken = self._break_brick()
        self.fall[broken | (self.ball_row == 0)] = 1

        at_paddle = self.ball_row == self.paddle_row
        returned = at_paddle & covers(self.paddle, self.paddle_width, self.ball_column)
        self.fall[returned] = -1
        # The left half of the paddle sends the ball left, the right half right.
        self.drift[returned] = np.where(self.ball_column == self.paddle, -1, 1)[returned]
        missed = at_paddle & ~returned
        self._launch(missed)
        return broken.astype(np.int64) - missed, np.zeros(self.num_envs, dtype=bool)

    def _break_brick(self) -> np.ndarray:
        """Breaks the brick where the ball is, if any; once half of them are gone, the wall is renewed."""
        level, place = self.ball_row - self.top_row, self.ball_column // self.brick_width
        env = np.flatnonzero((level >= 0) & (level < self.wall_rows))
        broken = np.zeros(self.num_envs, dtype=bool)
        broken[env] = self.bricks[env, level[env], place[env]]
        self.bricks[env, level[env], place[env]] = False
        self.bricks[self.bricks.mean(axis=(1, 2)) <= 0.5] = True
        return broken

    def draw(self, frames: np.ndarray) -> None:
        for level, place in np.ndindex(self.bricks.shape[1:]):
            row, column, shade = self.top_row + level, place * self.brick_width, 180 + 40 * ((level + place) % 2)
            self.paint(frames, row, column, shade, width=self.brick_width, where=self.bricks[:, level, place])
        self.paint(frames, self.paddle_row, self.paddle, 150, height=2, width=self.paddle_width)
        self.paint(frames, self.ball_row, self.ball_column, 255)


class Flyer(ArcadeTask):
    name = "flyer"
    title = "Flyer"
    about = "Flap against gravity through the gaps of columns: +1 for each, -1 and one of three lives for a crash."
    background = background(200 - 14 * ROWS)
    lives = 3
    gap_height = 3
    bird_column = 1
    shades = np.array([75, 50, 25, 0])  # by lives left: every crash makes the bird paler

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.row, self.wall_column, self.gap = self.counters(3)

    def begin(self, mask: np.ndarray) -> None:
        self.row[mask] = self.random_int(CELLS)[mask]
        self._raise_wall(mask)

    def _raise_wall(self, mask: np.ndarray) -> None:
        self.wall_column[mask] = CELLS - 1
        self.gap[mask] = self.random_int(CELLS - self.gap_height + 1)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flaps = (actions == UP) | (actions == FIRE)
        self.row[:] = (self.row + np.where(flaps, -1, 1)).clip(0, CELLS - 1)
        self._raise_wall(self.wall_column == self.bird_column)
        self.wall_column -= 1
        in_gap = covers(self.gap, self.gap_height, self.row)
        arrived = self.wall_column == self.bird_column
        return np.where(in_gap, 1, -1) * arrived, arrived & ~in_gap

    def draw(self, frames: np.ndarray) -> None:
        below = self.gap + self.gap_height  # and on around the edge, down to the gap
        self.paint(frames, below, self.wall_column, 255, height=CELLS - self.gap_height)
        self.paint(frames, self.row, self.bird_column, self.shades[self.lives_left])


class Stacker(ArcadeTask):
    name = "stacker"
    title = "Stacker"
    about = "Drop the sliding block when it is right above the tower: +1, or -1 and a new tower."
    background = background(np.where(COLUMNS // 2 % 2, 60, 190))
    width = 2  # of blocks and tower
    full_height = 5

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.block, self.heading, self.tower, self.height = self.counters(4)

    def begin(self, mask: np.ndarray) -> None:
        self._found_tower(mask)
        self._send_block(mask)

    def _found_tower(self, mask: np.ndarray) -> None:
        self.height[mask] = 1
        self.tower[mask] = self.random_int(CELLS - self.width + 1)[mask]

    def _send_block(self, mask: np.ndarray) -> None:
        from_right = self.random_int(2)
        self.block[mask] = np.where(from_right, CELLS - self.width, 0)[mask]
        self.heading[mask] = (1 - 2 * from_right)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dropped = actions == FIRE
        fits = dropped & (self.block == self.tower)
        self.height += fits
        self._found_tower((dropped & ~fits) | (self.height > self.full_height))
        self.block += self.heading
        self.heading[(self.block == 0) | (self.block == CELLS - self.width)] *= -1
        self._send_block(dropped)
        return np.where(fits, 1, -1) * dropped, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        for level in range(self.full_height):
            row, shade = CELLS - 1 - level, 255 - 30 * (level % 2)
            self.paint(frames, row, self.tower, shade, width=self.width, where=self.height > level)
        self.paint(frames, 0, self.block, 0, height=2, width=self.width)


class Lift(ArcadeTask):
    name = "lift"
    title = "Lift"
    about = "Stop the lift where a passenger waits or wants to go: +1 for each, -1 for a stop elsewhere."
    floor_height = 2  # cells, as of the lift
    floors = CELLS // floor_height
    shaft = 3  # its first column; passengers come from the left and leave to the right
    background = background(np.where((COLUMNS - shaft) // 2 == 0, 25, np.where(ROWS // 2 % 2, 130, 235)))

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.row, self.floor = self.counters(2)  # of the lift, and where to stop next
        self.loaded = np.zeros(num_envs, dtype=bool)

    def begin(self, mask: np.ndarray) -> None:
        self.row[mask] = self.random_int(CELLS - self.floor_height + 1)[mask]
        self.floor[mask] = self.random_int(self.floors)[mask]
        self.loaded[mask] = False

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.row[:] = (self.row + ROW_CHANGE[actions]).clip(0, CELLS - self.floor_height)
        stopped = actions == FIRE
        served = stopped & (self.row == self.floor_height * self.floor)
        self.loaded ^= served
        other_floor = (self.floor + 1 + self.random_int(self.floors - 1)) % self.floors
        self.floor[served] = other_floor[served]
        return np.where(served, 1, -1) * stopped, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.row, self.shaft, np.where(self.loaded, 255, 110), height=self.floor_height, width=2)
        side = np.where(self.loaded, CELLS - 2, 1)
        self.paint(frames, self.floor_height * self.floor, side, 0, height=self.floor_height)


class Sorter(ArcadeTask):
    name = "sorter"
    title = "Sorter"
    about = "Press towards the notch of a block as it lands: +1, or -1 for another key; fire if it has none."
    column, size = 2, 3
    chute = (column <= COLUMNS) & (column + size > COLUMNS)
    background = background(np.where(chute, 70, 215))
    last_row = CELLS - size

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.row, self.key = self.counters(2)

    def begin(self, mask: np.ndarray) -> None:
        self._drop_block(mask)

    def _drop_block(self, mask: np.ndarray) -> None:
        self.row[mask] = 0
        self.key[mask] = (UP + self.random_int(FIRE))[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        landed = self.row == self.last_row
        rewards = np.where(actions == self.key, 1, -1) * landed
        self.row += 1
        self._drop_block(landed)
        return rewards, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.row, self.column, 255, height=self.size, width=self.size)
        row, column = self.row + 1 + ROW_CHANGE[self.key], self.column + 1 + COLUMN_CHANGE[self.key]
        self.paint(frames, row, column, 0, where=self.key != FIRE)


MORE_ARCADE: dict[str, Task] = {g.name: arcade_task(g) for g in (Bricks, Snake, Flyer, Stacker, Lift, Sorter)}
