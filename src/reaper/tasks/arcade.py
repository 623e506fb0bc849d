"""Six small games: continual learning in minutes on a laptop, without an emulator or ROMs.

They share one observation and one meaning of the six actions, and differ in look and rules. Everything lies on an 8x8
lattice and moves by whole cells, because a small generator loses sprites that move by single pixels. Two stacked frames
show the whole state except for the time limit: headings show in the motion, dodge's lives in the player's shade.
"""

from __future__ import annotations

import numpy as np

from reaper.tasks.board import (
    CELLS,
    COLUMN_CHANGE,
    COLUMNS,
    FIRE,
    NOOP,
    RIGHT,
    ROW_CHANGE,
    ROWS,
    ArcadeTask,
    arcade_task,
    background,
)
from reaper.tasks.task import Task


class Catch(ArcadeTask):
    name = "catch"
    title = "Catch"
    about = "Move the paddle under the falling ball: +1 for a catch, -1 for a miss."
    background = background(np.array(45))
    paddle_width = 2
    paddle_row = 6  # two cells tall: without padding, the Q-network's strides do not reach the last row of a frame

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.paddle, self.ball_row, self.ball_column = self.counters(3)

    def begin(self, mask: np.ndarray) -> None:
        self.paddle[mask] = self.random_int(CELLS - self.paddle_width + 1)[mask]
        self._drop_ball(mask)

    def _drop_ball(self, mask: np.ndarray) -> None:
        self.ball_row[mask] = 0
        self.ball_column[mask] = self.random_int(CELLS)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.paddle[:] = (self.paddle + COLUMN_CHANGE[actions]).clip(0, CELLS - self.paddle_width)
        self.ball_row += 1
        self._drop_ball(self.ball_row > self.paddle_row)
        from_paddle = self.ball_column - self.paddle
        caught = (from_paddle >= 0) & (from_paddle < self.paddle_width)
        rewards = np.where(self.ball_row == self.paddle_row, np.where(caught, 1, -1), 0)
        return rewards, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.paddle_row, self.paddle, 170, height=2, width=self.paddle_width)
        self.paint(frames, self.ball_row, self.ball_column, 255)


class Dodge(ArcadeTask):
    name = "dodge"
    title = "Dodge"
    about = "Stand where the falling wall has its gap: +1 for a wall passed, -1 and one of three lives for a hit."
    background = background(np.where(COLUMNS % 2, 140, 185))
    lives = 3
    gap_width = 3
    player_row = 6  # the player is two cells tall
    shades = np.array([75, 50, 25, 0])  # by lives left: every hit makes the player paler

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.player, self.wall_row, self.gap = self.counters(3)

    def begin(self, mask: np.ndarray) -> None:
        self.player[mask] = self.random_int(CELLS)[mask]
        self._raise_wall(mask)

    def _raise_wall(self, mask: np.ndarray) -> None:
        self.wall_row[mask] = 0
        self.gap[mask] = self.random_int(CELLS - self.gap_width + 1)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.player[:] = (self.player + COLUMN_CHANGE[actions]).clip(0, CELLS - 1)
        self.wall_row += 1
        in_gap = (self.player >= self.gap) & (self.player < self.gap + self.gap_width)
        hit = (self.wall_row >= self.player_row) & (self.wall_row < CELLS) & ~in_gap
        passed = (self.wall_row == CELLS - 1) & in_gap
        self._raise_wall(hit | (self.wall_row == CELLS))
        return passed.astype(np.int64) - hit, hit

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.wall_row, self.gap + self.gap_width, 255, width=CELLS - self.gap_width)
        self.paint(frames, self.player_row, self.player, self.shades[self.lives_left], height=2)


class Shooter(ArcadeTask):
    name = "shooter"
    title = "Shooter"
    about = "Lead the drifting target, one bullet in flight at a time: +1 for a hit, -1 for a miss."
    background = background(30 + 8 * (ROWS + COLUMNS))
    target_width = 2
    bullet_speed = 2
    muzzle = 6  # a bullet shows at rows 4 and 2, and hits or misses at row 0

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.ship, self.target, self.heading, self.bullet_row, self.bullet_column = self.counters(5)
        self.flying = np.zeros(num_envs, dtype=bool)

    def begin(self, mask: np.ndarray) -> None:
        self.ship[mask] = self.random_int(CELLS)[mask]
        self.flying[mask] = False
        self._send_target(mask)

    def _send_target(self, mask: np.ndarray) -> None:
        # A new target heads for the middle, so that its heading shows before it has moved.
        distance, from_right = self.random_int(3), self.random_int(2)
        self.target[mask] = np.where(from_right, CELLS - self.target_width - distance, distance)[mask]
        self.heading[mask] = (1 - 2 * from_right)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.ship[:] = (self.ship + COLUMN_CHANGE[actions]).clip(0, CELLS - 1)
        fired = (actions == FIRE) & ~self.flying
        self.bullet_row[fired] = self.muzzle
        self.bullet_column[fired] = self.ship[fired]
        self.flying |= fired
        self.bullet_row -= self.bullet_speed * self.flying
        self.target += self.heading
        turned = (self.target == 0) | (self.target == CELLS - self.target_width)
        self.heading[turned] *= -1

        arrived = self.flying & (self.bullet_row == 0)
        from_target = self.bullet_column - self.target
        hit = arrived & (from_target >= 0) & (from_target < self.target_width)
        self.flying &= ~arrived
        self._send_target(hit)
        return np.where(hit, 1, -1) * arrived, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, 0, self.target, 255, height=2, width=self.target_width)
        self.paint(frames, self.muzzle, self.ship, 0, height=2)
        self.paint(frames, self.bullet_row, self.bullet_column, 255, where=self.flying)


class Pong(ArcadeTask):
    name = "pong"
    title = "Pong"
    about = "Return the ball with the paddle at the left: +1 for a return, -1 for a miss."
    far_wall = 6
    background = background(np.where(far_wall > COLUMNS, 225, 160))
    paddle_height = 3

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.paddle, self.ball_row, self.ball_column, self.fall, self.heading = self.counters(5)

    def begin(self, mask: np.ndarray) -> None:
        self.paddle[mask] = self.random_int(CELLS - self.paddle_height + 1)[mask]
        self.ball_row[mask] = self.random_int(CELLS)[mask]
        self.ball_column[mask] = self.far_wall - 1
        self.heading[mask] = -1
        self.fall[mask] = (self.random_int(3) - 1)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.paddle[:] = (self.paddle + ROW_CHANGE[actions]).clip(0, CELLS - self.paddle_height)
        self.fall[(self.ball_row + self.fall < 0) | (self.ball_row + self.fall >= CELLS)] *= -1
        self.ball_row += self.fall
        self.ball_column += self.heading
        self.heading[self.ball_column == self.far_wall - 1] = -1

        # The ball bounces after a miss as well, so that play continues at once.
        at_paddle = self.ball_column == 0
        self.heading[at_paddle] = 1
        self.fall[at_paddle] = (self.random_int(3) - 1)[at_paddle]
        from_paddle = self.ball_row - self.paddle
        returned = (from_paddle >= 0) & (from_paddle < self.paddle_height)
        return np.where(returned, 1, -1) * at_paddle, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.paddle, 0, 90, height=self.paddle_height)
        self.paint(frames, self.ball_row, self.ball_column, 0)


class Frog(ArcadeTask):
    name = "frog"
    title = "Frog"
    about = "Cross two lanes of cars upwards: +1 at the far bank, -1 and back to the start when hit."
    start_row, far_lane, near_lane, goal_row = 6, 3, 5, 2
    background = background(np.where((far_lane == ROWS) | (near_lane == ROWS), 115, 200))
    car_width = 3

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.row, self.column, self.near_car, self.far_car = self.counters(4)

    def begin(self, mask: np.ndarray) -> None:
        self.near_car[mask] = self.random_int(CELLS)[mask]
        self.far_car[mask] = self.random_int(CELLS)[mask]
        self._set_out(mask)

    def _set_out(self, mask: np.ndarray) -> None:
        self.row[mask] = self.start_row
        self.column[mask] = self.random_int(CELLS)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.row[:] = (self.row + ROW_CHANGE[actions]).clip(self.goal_row, self.start_row)
        self.column[:] = (self.column + COLUMN_CHANGE[actions]).clip(0, CELLS - 1)
        self.near_car[:] = (self.near_car + 1) % CELLS
        self.far_car[:] = (self.far_car - 1) % CELLS
        hit = self._under(self.near_car, self.near_lane) | self._under(self.far_car, self.far_lane)
        across = self.row == self.goal_row
        self._set_out(hit | across)
        return across.astype(np.int64) - hit, np.zeros(self.num_envs, dtype=bool)

    def _under(self, car: np.ndarray, lane: int) -> np.ndarray:
        return (self.row == lane) & ((self.column - car) % CELLS < self.car_width)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.near_lane, self.near_car, 255, width=self.car_width)
        self.paint(frames, self.far_lane, self.far_car, 255, width=self.car_width)
        self.paint(frames, self.row, self.column, 0)


class Chase(ArcadeTask):
    name = "chase"
    title = "Chase"
    about = "Touch the target, which strays now and then: +1, and it shows up somewhere else."
    background = background(np.where((ROWS // 2 + COLUMNS // 2) % 2, 80, 135))
    size = 2  # cells, of player and target alike

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.row, self.column, self.target_row, self.target_column = self.counters(4)

    def begin(self, mask: np.ndarray) -> None:
        self.row[mask] = self.random_int(CELLS - self.size + 1)[mask]
        self.column[mask] = self.random_int(CELLS - self.size + 1)[mask]
        self._place_target(mask)

    def _place_target(self, mask: np.ndarray) -> None:
        # At least its size away both ways, counted around the edges: never within reach of a single move.
        places = CELLS - self.size + 1
        far_choices = places - 2 * self.size + 1
        self.target_row[mask] = ((self.row + self.size + self.random_int(far_choices)) % places)[mask]
        self.target_column[mask] = ((self.column + self.size + self.random_int(far_choices)) % places)[mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.row[:] = (self.row + ROW_CHANGE[actions]).clip(0, CELLS - self.size)
        self.column[:] = (self.column + COLUMN_CHANGE[actions]).clip(0, CELLS - self.size)
        # Without this, a policy that oscillates next to a resting target would do so for ever.
        stray = self.random_int(16)
        stray[stray > RIGHT] = NOOP
        self.target_row[:] = (self.target_row + ROW_CHANGE[stray]).clip(0, CELLS - self.size)
        self.target_column[:] = (self.target_column + COLUMN_CHANGE[stray]).clip(0, CELLS - self.size)
        down, right = self.row - self.target_row, self.column - self.target_column
        caught = (abs(down) < self.size) & (abs(right) < self.size)
        self._place_target(caught)
        return caught.astype(np.int64), np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.row, self.column, 0, height=self.size, width=self.size)
        self.paint(frames, self.target_row, self.target_column, 255, height=self.size, width=self.size)


ARCADE: dict[str, Task] = {game.name: arcade_task(game) for game in (Catch, Dodge, Shooter, Pong, Frog, Chase)}
