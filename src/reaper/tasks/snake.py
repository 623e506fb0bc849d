"""Snake, one of the small games (arcade.py)."""

from __future__ import annotations

import numpy as np

from reaper.tasks.board import (
    CELLS,
    COLUMN_CHANGE,
    COLUMNS,
    DOWN,
    LEFT,
    RIGHT,
    ROW_CHANGE,
    ROWS,
    UP,
    ArcadeTask,
    background,
    covers,
)


class Snake(ArcadeTask):
    name = "snake"
    title = "Snake"
    about = "Steer the snake to the food: +1 for eating, -1 and a new snake when it runs into a wall or itself."
    inside = (ROWS % (CELLS - 1) > 0) & (COLUMNS % (CELLS - 1) > 0)
    background = background(np.where(inside, 110, 250))
    food_size = 2  # cells
    places = np.argwhere(inside[:-1, :-1] & inside[1:, 1:])  # (25, 2), rows and columns of the food's first cell
    length = 5
    opposite = np.array([-1, DOWN, UP, RIGHT, LEFT, -1])  # a snake cannot turn back

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.food_row, self.food_column, self.heading = self.counters(3)
        self.rows, self.columns = self.counters(self.length), self.counters(self.length)  # from head to tail

    def begin(self, mask: np.ndarray) -> None:
        self._hatch(mask)
        self._place_food(mask)

    def _hatch(self, mask: np.ndarray) -> None:
        # Coiled up in one cell at the bottom: it stretches as it moves.
        self.rows[:, mask], self.heading[mask] = CELLS - 2, UP
        self.columns[:, mask] = (1 + self.random_int(CELLS - 2))[mask]

    def _place_food(self, mask: np.ndarray) -> None:
        """In the first free place from a random one on."""
        order = (self.random_int(len(self.places)) + np.arange(len(self.places))[:, None]) % len(self.places)
        rows, columns = self.places[order].transpose(2, 0, 1)  # (25, num_envs) each
        on_snake = covers(rows[:, None], self.food_size, self.rows) & covers(
            columns[:, None], self.food_size, self.columns
        )
        free = on_snake.any(axis=1).argmin(axis=0), self._all_envs
        self.food_row[mask], self.food_column[mask] = rows[free][mask], columns[free][mask]

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns = (actions >= UP) & (actions <= RIGHT) & (actions != self.opposite[self.heading])
        self.heading[turns] = actions[turns]
        row, column = self.rows[0] + ROW_CHANGE[self.heading], self.columns[0] + COLUMN_CHANGE[self.heading]
        # The tail moves on, so its cell is free.
        into_itself = ((self.rows[:-1] == row) & (self.columns[:-1] == column)).any(axis=0)
        crashed = into_itself | ~self.inside[row, column]
        self.rows[1:], self.columns[1:] = self.rows[:-1], self.columns[:-1]
        self.rows[0], self.columns[0] = row, column
        on_food = covers(self.food_row, self.food_size, row) & covers(self.food_column, self.food_size, column)
        eaten = on_food & ~crashed
        self._hatch(crashed)
        self._place_food(eaten | crashed)
        return eaten.astype(np.int64) - crashed, np.zeros(self.num_envs, dtype=bool)

    def draw(self, frames: np.ndarray) -> None:
        self.paint(frames, self.food_row, self.food_column, 255, height=self.food_size, width=self.food_size)
        for row, column in zip(self.rows, self.columns, strict=True):
            self.paint(frames, row, column, 50)
        self.paint(frames, self.rows[0], self.columns[0], 0)
