"""The arcade games: the contract they share, their rules worked out by hand, and that skill pays."""

from __future__ import annotations

from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from arcade_play import GAMES, NUM_ENVS, act, mean_score, opened, played, random_policy, towards

from reaper.tasks.arcade import ARCADE, Catch, Chase, Dodge, Frog, Pong, Shooter
from reaper.tasks.board import DOWN, FIRE, LEFT, MAX_EPISODE_STEPS, NOOP, RIGHT, UP, ArcadeTask
from reaper.tasks.observation import ObservationSpec

every_game = pytest.mark.parametrize("name", GAMES)


@every_game
def test_same_seed_and_actions_give_the_same_episodes(name: str) -> None:
    (steps, first), (again, first_again), (other, _) = played(name, 5), played(name, 5), played(name, 6)
    assert np.array_equal(first, first_again)
    for step, same in zip(steps, again, strict=True):
        for field in ("observations", "rewards", "terminated", "truncated", "lost_life", "autoreset"):
            assert np.array_equal(getattr(step, field), getattr(same, field))
    assert any(
        not np.array_equal(step.observations, differs.observations) for step, differs in zip(steps, other, strict=True)
    )


# Of 500 steps of eight environments. A run resumes by replaying its actions, a pretrained agent plays what it saw, and
# published scores are compared with new ones: so a game that changes in any way has to change its name.
DIGESTS = {
    "catch": "bf5ecdb929d8be82",
    "dodge": "d296c50a321b34a6",
    "shooter": "7c92ab7af23c3357",
    "pong": "00acdc469329efe7",
    "frog": "c66fa25ad14c8370",
    "chase": "4321b182e74a28ed",
    "bricks": "0f13f66564051f84",
    "snake": "0674561699d3d2c9",
    "flyer": "375f066982dd3021",
    "stacker": "f328f75755717ed6",
    "lift": "379cbffae17cd675",
    "sorter": "6518d5f8ca9f8470",
}


@every_game
def test_rules_and_look_are_those_of_every_version_before(name: str) -> None:
    steps, first = played(name, 12, moves=500)
    digest = sha256(first.tobytes())
    for step in steps:
        for each in vars(step).values():
            digest.update(each.tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[name]


@every_game
def test_a_reset_forgets_the_episodes_before(name: str) -> None:
    task = opened(name)
    first = task.reset(5)
    for _ in range(MAX_EPISODE_STEPS // 2):
        act(task, RIGHT)
    assert np.array_equal(task.reset(5), first)
    steps = [act(task, NOOP) for _ in range(MAX_EPISODE_STEPS - 2)]
    assert not any(step.truncated.any() for step in steps), "the counter of agent steps was not reset"


@every_game
def test_no_environment_depends_on_anothers_actions(name: str) -> None:
    ours, theirs = opened(name), opened(name)
    choices = np.random.default_rng(1).integers(6, size=(250, NUM_ENVS))
    changed = choices.copy()
    changed[:, 1:] = (choices[:, 1:] + 1) % 6
    assert np.array_equal(ours.reset(3), theirs.reset(3))
    for actions, others in zip(choices, changed, strict=True):
        assert np.array_equal(act(ours, actions).observations[0], act(theirs, others).observations[0])


@every_game
def test_many_environments_play_like_one(name: str) -> None:
    many, one, drawn = opened(name), opened(name, num_envs=1), []
    draw, env = many.random_int, 3

    def record(high: int) -> np.ndarray:
        drawn.append(draw(high))
        return drawn[-1].copy()

    many.random_int, one.random_int = record, lambda high: drawn.pop(0)[[env]]
    assert np.array_equal(many.reset(4)[env], one.reset(4)[0])
    for actions in np.random.default_rng(2).integers(6, size=(250, NUM_ENVS)):
        step, alone = act(many, actions), act(one, actions[[env]])
        assert all(np.array_equal(a[env], b[0]) for a, b in zip(vars(step).values(), vars(alone).values(), strict=True))
        assert not drawn


@every_game
def test_shapes_and_dtypes(name: str) -> None:
    steps, first = played(name, 0, moves=3)
    assert first.shape == (NUM_ENVS, 1, 16, 16)
    assert first.dtype == np.uint8
    for step in steps:
        assert step.observations.shape == (NUM_ENVS, 1, 16, 16)
        assert step.observations.dtype == np.uint8
        assert step.rewards.shape == (NUM_ENVS,)
        assert step.rewards.dtype == np.float32
        for flags in (step.terminated, step.done, step.truncated, step.lost_life, step.autoreset):
            assert flags.shape == (NUM_ENVS,)
            assert flags.dtype == bool


@every_game
def test_sprites_keep_to_whole_cells(name: str) -> None:
    steps, first = played(name, 0, moves=50)
    for frames in [first, *(step.observations for step in steps)]:
        cells = frames.reshape(NUM_ENVS, 8, 2, 8, 2)
        assert np.array_equal(cells, np.broadcast_to(cells[:, :, :1, :, :1], cells.shape))


@every_game
def test_a_step_is_not_changed_by_the_next(name: str) -> None:
    task = opened(name)
    task.reset(0)
    for _ in range(MAX_EPISODE_STEPS // 2 + 2):
        step = act(task, LEFT)
        copies = [each.copy() for each in vars(step).values()]
        act(task, RIGHT)
        assert all(np.array_equal(each, copy) for each, copy in zip(vars(step).values(), copies, strict=True))


@every_game
def test_an_environment_resets_on_the_step_after_an_episode_ends(name: str) -> None:
    steps, _ = played(name, 2, moves=450)
    done_before = np.zeros(NUM_ENVS, dtype=bool)
    agent_steps = np.ones(NUM_ENVS, dtype=int)
    for step in steps:
        assert np.array_equal(step.autoreset, done_before)
        assert not step.rewards[step.autoreset].any()
        assert not (step.autoreset & (step.done | step.lost_life)).any()
        agent_steps = np.where(step.autoreset, 1, agent_steps + 1)
        assert np.array_equal(step.truncated, step.done & (agent_steps == MAX_EPISODE_STEPS))
        assert (agent_steps <= MAX_EPISODE_STEPS).all()
        done_before = step.done
    assert any(step.autoreset.any() for step in steps)


def test_tasks_describe_themselves() -> None:
    for name, task in GAMES.items():
        assert (task.name, task.num_actions) == (name, 6)
        assert task.observation == ObservationSpec((1, 16, 16))
        assert task.title
        assert task.about
        assert "\n" not in task.about


def test_backgrounds_are_distinguishable() -> None:
    backgrounds = {name: opened(name).background.astype(int) for name in GAMES}
    for one, other in combinations(backgrounds, 2):
        assert np.abs(backgrounds[one] - backgrounds[other]).mean() > 25, (one, other)
    assert all(background.min() > 0 for background in backgrounds.values())


def test_catch_scores_at_the_paddle_only() -> None:
    task = Catch(2)
    task.reset(0)
    task.ball_row[:], task.ball_column[:], task.paddle[:] = Catch.paddle_row - 2, 3, 1
    assert act(task, np.array([RIGHT, LEFT])).rewards.tolist() == [0, 0]
    assert task.paddle.tolist() == [2, 0]
    assert act(task, NOOP).rewards.tolist() == [1, -1]
    assert act(task, NOOP).rewards.tolist() == [0, 0]
    assert task.ball_row.tolist() == [0, 0]


def test_dodge_ends_with_the_third_hit() -> None:
    task = Dodge(1)
    task.reset(0)
    lives, shades = [], []
    for _ in range(3):
        task.player[:], task.gap[:], task.wall_row[:] = 0, 4, Dodge.player_row - 1
        step = act(task, NOOP)
        assert step.rewards.tolist() == [-1]
        assert step.lost_life.all()
        assert not step.truncated.any()
        assert task.wall_row[0] == 0, "the wall that hit is gone"
        lives.append((int(task.lives_left[0]), bool(step.done[0])))
        shades.append(int(step.observations[0, 0, -1, 0]))
    assert lives == [(2, False), (1, False), (0, True)]
    assert len(set(shades)) == 3, "lives show"
    assert act(task, NOOP).autoreset.all()
    assert task.lives_left[0] == 3


def test_dodge_scores_a_wall_once_it_is_passed() -> None:
    task = Dodge(1)
    task.reset(0)
    task.player[:], task.gap[:], task.wall_row[:] = 4, 4, Dodge.player_row - 1
    assert act(task, NOOP).rewards.tolist() == [0]
    assert act(task, RIGHT).rewards.tolist() == [1]
    assert act(task, NOOP).rewards.tolist() == [0]
    assert task.lives_left[0] == 3


def test_dodge_hits_a_player_who_walks_into_the_wall() -> None:
    task = Dodge(1)
    task.reset(0)
    task.player[:], task.gap[:], task.wall_row[:] = 4, 4, Dodge.player_row
    step = act(task, LEFT)
    assert step.rewards.tolist() == [-1]
    assert step.lost_life.all()


def test_shooter_has_one_bullet_and_scores_when_it_arrives() -> None:
    task = Shooter(2)
    task.reset(0)
    task.ship[:], task.target[:], task.heading[:] = [4, 3], 0, 1
    rewards = [act(task, FIRE).rewards.tolist() for _ in range(2)]
    assert task.bullet_row.tolist() == [2, 2], "firing again does not start a second bullet"
    rewards.append(act(task, FIRE).rewards.tolist())
    assert rewards == [[0, 0], [0, 0], [1, 1]]
    assert not task.flying.any()

    task.ship[:], task.target[:], task.heading[:] = 0, 3, -1
    assert [act(task, action).rewards.tolist() for action in (FIRE, RIGHT, RIGHT)] == [[0, 0], [0, 0], [1, 1]]
    task.ship[:], task.target[:], task.heading[:] = 7, 0, 1
    assert [act(task, action).rewards.tolist() for action in (FIRE, LEFT, LEFT)] == [[0, 0], [0, 0], [-1, -1]]


def test_pong_bounces_and_counts_returns_and_misses() -> None:
    task = Pong(2)
    task.reset(0)
    task.ball_row[:], task.ball_column[:], task.fall[:], task.heading[:] = 1, 3, -1, -1
    task.paddle[:] = [2, 3]
    rows, rewards = [], []
    for _ in range(3):
        rewards.append(act(task, np.array([NOOP, DOWN])).rewards.tolist())
        rows.append(int(task.ball_row[0]))
    assert rows == [0, 1, 2]
    assert rewards == [[0, 0], [0, 0], [1, -1]]
    act(task, UP)
    assert task.ball_column.tolist() == [1, 1]
    assert task.paddle.tolist() == [1, 4]


def test_frog_scores_at_the_far_bank_and_pays_for_cars() -> None:
    task = Frog(3)
    task.reset(0)
    task.row[:] = [Frog.goal_row + 1, Frog.near_lane + 1, Frog.near_lane + 1]
    task.column[:], task.near_car[:], task.far_car[:] = 4, [0, 1, 5], 0
    assert act(task, UP).rewards.tolist() == [1, -1, 0]
    assert task.row.tolist() == [Frog.start_row, Frog.start_row, Frog.near_lane]


def test_chase_scores_a_touch_and_moves_the_target_away() -> None:
    task = Chase(2)
    task.reset(0)
    # Targets may stray by a cell: one stays in reach and the other out of it wherever they go.
    task.row[:], task.column[:], task.target_row[:], task.target_column[:] = 3, 3, [3, 0], [4, 0]
    assert act(task, RIGHT).rewards.tolist() == [1, 0]
    assert abs(task.target_row[0] - 3) >= Chase.size
    assert abs(task.target_column[0] - 4) >= Chase.size


def skilled(task: ArcadeTask) -> np.ndarray:
    """A hand-written policy that reads the state of the environments."""
    match task:
        case Catch():
            return towards(task.ball_column - (task.ball_column > task.paddle) - task.paddle, LEFT, RIGHT)
        case Dodge():
            return towards(task.gap + 1 - task.player, LEFT, RIGHT)
        case Shooter():
            # Where the target will be in three frames: its path, folded at both ends.
            ahead = np.abs(np.where(task.heading > 0, task.target, -task.target) + 3)
            ahead = np.where(ahead > 6, 12 - ahead, ahead)
            in_sight = (task.ship >= ahead) & (task.ship < ahead + 2) & ~task.flying
            return np.where(in_sight, FIRE, towards(ahead - task.ship, LEFT, RIGHT))
        case Pong():
            row = task.ball_row + task.fall * task.ball_column
            row = np.where(row < 0, -row, np.where(row > 7, 14 - row, row))
            row = np.where(task.heading < 0, row, 4)
            return towards(row - (row > task.paddle) - task.paddle, UP, DOWN)
        case Frog():
            near_blocked = (task.column - task.near_car - 1) % 8 < Frog.car_width
            far_blocked = (task.column - task.far_car + 1) % 8 < Frog.car_width
            waits = np.where(task.row > Frog.near_lane, near_blocked, far_blocked & (task.row == Frog.far_lane + 1))
            return np.where(waits, NOOP, UP)
        case Chase():
            down, right = task.target_row - task.row, task.target_column - task.column
            return np.where(abs(down) > 1, towards(down, UP, DOWN), towards(right, LEFT, RIGHT))
    raise AssertionError(task.name)


@pytest.mark.parametrize("name", ARCADE)
def test_skill_pays(name: str) -> None:
    assert mean_score(name, random_policy()) < 4
    assert 15 < mean_score(name, skilled) < 60


def test_no_single_action_is_skill() -> None:
    for name in GAMES:
        task = opened(name, num_envs=6 * NUM_ENVS)
        task.reset(0)
        actions = np.repeat(np.arange(6), NUM_ENVS)
        scores = np.sum([act(task, actions).rewards for _ in range(MAX_EPISODE_STEPS - 1)], axis=0)
        assert scores.reshape(6, NUM_ENVS).mean(axis=1).max() < 8, name
