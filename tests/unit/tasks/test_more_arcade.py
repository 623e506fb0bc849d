"""The second six arcade games: their rules worked out by hand, and that skill pays. Their contract: test_arcade.py."""

from __future__ import annotations

import numpy as np
import pytest
from arcade_play import act, mean_score, random_policy, towards

from reaper.tasks.board import DOWN, FIRE, LEFT, NOOP, RIGHT, UP, ArcadeTask
from reaper.tasks.more_arcade import MORE_ARCADE, Bricks, Flyer, Lift, Sorter, Stacker
from reaper.tasks.snake import Snake


def shades(task: ArcadeTask, env: int = 0) -> np.ndarray:
    """The grey level of each cell, (8, 8)."""
    return task._observations()[env, 0, ::2, ::2]


def test_bricks_breaks_what_the_ball_reaches_and_turns_it() -> None:
    task = Bricks(1)
    task.reset(0)
    task.ball_row[:], task.ball_column[:], task.fall[:], task.drift[:] = 3, 4, -1, -1
    assert act(task, NOOP).rewards.tolist() == [1]
    assert task.bricks[0].tolist() == [[True] * 4, [True, False, True, True]]
    assert shades(task)[2].tolist() == [220, 220, 30, 255, 220, 220, 180, 180]
    assert [int(task.ball_row[0]), int(task.ball_column[0]), int(task.fall[0])] == [2, 3, 1]
    assert act(task, NOOP).rewards.tolist() == [0]
    assert task.ball_row[0] == 3


def test_bricks_ball_passes_holes_and_falls_from_the_top_and_from_every_brick() -> None:
    task = Bricks(1)
    task.reset(0)
    task.bricks[0, 1, 0] = task.bricks[0, 0, 1] = False
    task.ball_row[:], task.ball_column[:], task.fall[:], task.drift[:] = 3, 0, -1, 1
    path, rewards = [], []
    for _ in range(5):
        rewards.append(int(act(task, NOOP).rewards[0]))
        path.append((int(task.ball_row[0]), int(task.ball_column[0])))
    assert path == [(2, 1), (1, 2), (0, 3), (1, 4), (2, 5)]
    assert rewards == [0, 0, 0, 1, 1], "from the top through both bricks of the third column"


def test_bricks_renews_the_wall_once_half_of_it_is_gone() -> None:
    task = Bricks(2)
    task.reset(0)
    task.bricks[:] = [[True] * 4, [False, False, False, True]]
    task.bricks[1, 1, 0] = True
    task.ball_row[:], task.ball_column[:], task.fall[:], task.drift[:] = 3, 5, -1, 1
    assert act(task, NOOP).rewards.tolist() == [1, 1]
    assert task.bricks.sum(axis=(1, 2)).tolist() == [8, 5]


def test_bricks_paddle_halves_aim_and_a_miss_costs_and_launches_a_ball() -> None:
    task = Bricks(3)
    task.reset(0)
    task.ball_row[:], task.ball_column[:], task.fall[:], task.drift[:] = 5, 4, 1, -1
    task.paddle[:] = [3, 2, 0]
    assert act(task, NOOP).rewards.tolist() == [0, 0, -1]
    assert task.drift.tolist()[:2] == [-1, 1]
    assert task.fall.tolist() == [-1, -1, 1]
    assert task.ball_row.tolist() == [6, 6, Bricks.launch_row]
    assert task.drift[2] == (1 if task.ball_column[2] < 4 else -1), "it heads for the middle"
    assert task.bricks.all()


def placed_snake(body: list[tuple[int, int]], heading: int, food: tuple[int, int]) -> Snake:
    task = Snake(1)
    task.reset(0)
    task.rows[:, 0], task.columns[:, 0] = np.transpose(body)
    task.heading[:], task.food_row[:], task.food_column[:] = heading, *food
    return task


def test_snake_eats_moves_on_and_cannot_turn_back() -> None:
    task = placed_snake([(3, 3), (3, 2), (3, 1), (4, 1), (5, 1)], RIGHT, food=(3, 5))
    assert act(task, LEFT).rewards.tolist() == [0]
    body = [(3, 4), (3, 3), (3, 2), (3, 1), (4, 1)]
    assert list(zip(task.rows[:, 0], task.columns[:, 0], strict=True)) == body
    assert [int(shades(task)[place]) for place in body] == [0, 50, 50, 50, 50]
    assert shades(task)[5, 1] == 110, "the tail has left"
    assert act(task, NOOP).rewards.tolist() == [1]
    food = int(task.food_row[0]), int(task.food_column[0])
    assert Snake.inside[food]
    assert food not in list(zip(task.rows[:, 0], task.columns[:, 0], strict=True))


def test_snake_crashes_into_walls_and_itself() -> None:
    for task, action in [
        (placed_snake([(1, 3), (2, 3), (3, 3), (4, 3), (5, 3)], UP, food=(6, 6)), NOOP),
        (placed_snake([(3, 3), (3, 4), (4, 4), (4, 3), (4, 2)], LEFT, food=(6, 6)), DOWN),
    ]:
        step = act(task, action)
        assert step.rewards.tolist() == [-1]
        assert not step.done.any()
        assert set(task.rows[:, 0]) == {6}, "a new snake is coiled up at the bottom"
        assert len(set(task.columns[:, 0])) == 1
        assert act(task, NOOP).rewards[0] >= 0
        assert task.rows[:, 0].tolist() == [5, 6, 6, 6, 6]
    square = placed_snake([(3, 3), (3, 4), (4, 4), (4, 4), (4, 3)], LEFT, food=(6, 6))
    assert act(square, DOWN).rewards.tolist() == [0], "the cell that the tail leaves is free"


def test_flyer_falls_unless_it_flaps() -> None:
    task = Flyer(6)
    task.reset(0)
    task.row[:] = 4
    act(task, np.arange(6))
    assert task.row.tolist() == [5, 3, 5, 5, 5, 3]


def test_flyer_scores_a_column_and_ends_with_the_third_crash() -> None:
    task = Flyer(2)
    task.reset(0)
    history, birds = [], []
    for _ in range(3):
        task.row[:], task.wall_column[:], task.gap[:] = 4, 3, [3, 0]
        assert act(task, NOOP).rewards.tolist() == [0, 0]
        step = act(task, UP)
        assert step.rewards.tolist() == [1, -1]
        assert step.lost_life.tolist() == [False, True]
        history.append((task.lives_left.tolist(), step.done.tolist()))
        birds.append(int(shades(task, env=1)[4, Flyer.bird_column]))
    assert history == [([3, 2], [False, False]), ([3, 1], [False, False]), ([3, 0], [False, True])]
    assert len(set(birds)) == 3, "lives show"
    act(task, NOOP)
    assert task.wall_column[0] == 6, "the next column comes in"
    assert task.lives_left.tolist() == [3, 3]


def test_flyer_shows_the_gap() -> None:
    task = Flyer(1)
    task.reset(0)
    task.row[:], task.wall_column[:], task.gap[:] = 0, 5, 2
    assert (shades(task)[:, 5] == 255).tolist() == [True, True, False, False, False, True, True, True]


def test_stacker_scores_an_exact_drop_only() -> None:
    task = Stacker(3)
    task.reset(0)
    task.block[:], task.heading[:], task.tower[:], task.height[:] = 3, 1, [3, 4, 2], 2
    assert act(task, FIRE).rewards.tolist() == [1, -1, -1]
    assert task.height.tolist() == [3, 1, 1]
    assert task.tower[0] == 3
    assert set(task.block) <= {0, 6}, "the next block starts at a side"
    assert task.heading.tolist() == [1 if block == 0 else -1 for block in task.block]
    assert act(task, RIGHT).rewards.tolist() == [0, 0, 0]


def test_stacker_block_slides_to_and_fro_and_a_full_tower_gives_way() -> None:
    task = Stacker(1)
    task.reset(0)
    task.block[:], task.heading[:] = 4, 1
    columns = []
    for _ in range(4):
        act(task, NOOP)
        columns.append(int(task.block[0]))
    assert columns == [5, 6, 5, 4]
    task.tower[:], task.height[:] = 4, Stacker.full_height
    assert act(task, FIRE).rewards.tolist() == [1]
    assert task.height[0] == 1


def test_lift_scores_stops_at_the_passengers_floor_only() -> None:
    task = Lift(4)
    task.reset(0)
    task.row[:], task.floor[:], task.loaded[:] = [4, 4, 5, 4], [2, 1, 2, 2], [False, False, False, True]
    assert act(task, FIRE).rewards.tolist() == [1, -1, -1, 1]
    assert task.loaded.tolist() == [True, False, False, False], "a passenger gets in or out"
    assert task.floor[1:3].tolist() == [1, 2], "and waits on where the lift has not been"
    assert 2 not in task.floor[[0, 3]], "the next stop is at another floor"
    assert act(task, np.array([UP, DOWN, LEFT, NOOP])).rewards.tolist() == [0, 0, 0, 0]
    assert task.row.tolist() == [3, 5, 5, 4]


def test_lift_shows_who_waits_and_who_wants_to_go_where() -> None:
    task = Lift(2)
    task.reset(0)
    task.row[:], task.floor[:], task.loaded[:] = 3, 0, [False, True]
    for env, column in enumerate([1, 6]):
        assert np.argwhere(shades(task, env) == 0).tolist() == [[0, column], [1, column]]
    assert shades(task, 0)[3:5, 3:5].tolist() == [[110, 110], [110, 110]]
    assert shades(task, 1)[3:5, 3:5].tolist() == [[255, 255], [255, 255]]


def test_sorter_takes_the_key_as_the_block_lands() -> None:
    task = Sorter(6)
    task.reset(0)
    task.row[:], task.key[:] = Sorter.last_row - 1, [UP, DOWN, LEFT, RIGHT, FIRE, FIRE]
    keys = np.array([UP, DOWN, LEFT, RIGHT, FIRE, NOOP])
    assert act(task, keys).rewards.tolist() == [0] * 6, "it has not landed"
    notched = [(shades(task, env)[5:, 2:5] == 0).tolist() for env in range(6)]
    places = [[(r, c) for r in range(3) for c in range(3) if each[r][c]] for each in notched]
    assert places == [[(0, 1)], [(2, 1)], [(1, 0)], [(1, 2)], [], []]
    assert act(task, keys).rewards.tolist() == [1, 1, 1, 1, 1, -1]
    assert task.row.tolist() == [0] * 6


def skilled(task: ArcadeTask) -> np.ndarray:
    """A hand-written policy that reads the state of the environments."""
    match task:
        case Bricks():
            column = np.abs(task.ball_column + task.drift * (task.paddle_row - task.ball_row))
            column = np.where(column > 7, 14 - column, column)
            column = np.where(task.fall > 0, column, task.ball_column)
            return towards(column - (column > task.paddle) - task.paddle, LEFT, RIGHT)
        case Snake():
            return np.array([skilled_snake(task, env) for env in range(task.num_envs)])
        case Flyer():
            return np.where(task.row > task.gap + 1, UP, NOOP)
        case Stacker():
            return np.where(task.block == task.tower, FIRE, NOOP)
        case Lift():
            away = 2 * task.floor - task.row
            return np.where(away == 0, FIRE, towards(away, UP, DOWN))
        case Sorter():
            return task.key
    raise AssertionError(task.name)


def skilled_snake(task: Snake, env: int) -> int:
    """Towards the food, along cells that are free."""
    body = set(zip(task.rows[:-1, env].tolist(), task.columns[:-1, env].tolist(), strict=True))
    row, column = int(task.rows[0, env]), int(task.columns[0, env])
    free: dict[int, int] = {}
    for action, (down, right) in {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}.items():
        place = row + down, column + right
        if Snake.inside[place] and place not in body and action != Snake.opposite[task.heading[env]]:
            free[action] = abs(place[0] - int(task.food_row[env])) + abs(place[1] - int(task.food_column[env]))
    return min(free, key=lambda action: free[action], default=NOOP)


@pytest.mark.parametrize("name", MORE_ARCADE)
def test_skill_pays(name: str) -> None:
    assert mean_score(name, random_policy()) < 4
    assert 15 < mean_score(name, skilled) < 65
