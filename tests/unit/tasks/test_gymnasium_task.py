"""A Gymnasium environment as a task: what each step reports, and what is observed, worked out by hand."""

import gymnasium
import numpy as np
import pytest
from corridor import SIZE, Corridor, Moment

from reaper.errors import UserError
from reaper.tasks.gymnasium import GymnasiumTask, gymnasium_task, to_grey
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import EnvOptions

NAME = "test/Hand-v0"
FRAME = ObservationSpec((1, SIZE, SIZE))


@pytest.fixture
def register():
    """Registers an environment under NAME."""
    yield lambda env, limit=None, **options: gymnasium.register(NAME, env, kwargs=options, max_episode_steps=limit)
    gymnasium.registry.pop(NAME, None)


def played(steps, num_envs=2, seed=0):
    """The flags and rewards of the first environment, step by step."""
    task = GymnasiumTask(NAME, EnvOptions(num_envs, FRAME))
    task.reset(seed)
    rows = []
    for _ in range(steps):
        task.send(np.zeros(num_envs, dtype=np.int64))
        step = task.receive()
        flags = (step.terminated[0], step.truncated[0], step.lost_life[0], step.autoreset[0])
        rows.append((float(step.rewards[0]), "".join(letter for letter, on in zip("TXLA", flags, strict=True) if on)))
        assert step.rewards.dtype == np.float32
    task.close()
    return rows


def test_a_time_limit_truncates_and_does_not_terminate(register):
    register(Corridor, limit=3, script=(Moment(1.0),))
    assert played(5) == [(1, ""), (1, ""), (1, "X"), (0, "A"), (1, "")]


def test_a_terminal_at_the_time_limit_is_a_terminal(register):
    register(Corridor, limit=2, script=(Moment(1.0), Moment(2.0, terminated=True)))
    assert played(4) == [(1, ""), (2, "T"), (0, "A"), (1, "")]


def test_lives_are_lost_one_by_one_and_come_back_with_the_next_episode(register):
    """The reset from no life to two is not a loss, and neither is what an autoreset step reports."""
    script = (Moment(1.0, lives=2), Moment(1.0, lives=1), Moment(5.0, lives=0, terminated=True))
    register(Corridor, script=script, lives=2)
    assert played(6) == [(1, ""), (1, "L"), (5, "TL"), (0, "A"), (1, ""), (1, "L")]


def test_more_lives_left_at_the_end_than_at_the_start_are_no_loss(register):
    register(Corridor, script=(Moment(0.0, lives=3), Moment(0.0, lives=3, terminated=True)), lives=1)
    assert played(4) == [(0, ""), (0, "T"), (0, "A"), (0, "")]


def test_environments_get_consecutive_seeds_and_the_same_ones_again(register):
    register(Corridor, script=(Moment(0.0),) * 5, staggered=True)
    task = GymnasiumTask(NAME, EnvOptions(4, FRAME))
    lit = [int(frame[0].argmax()) // 3 for frame in task.reset(7)[:, 0]]
    assert lit == [2, 3, 4, 0]
    large = 2**40 + 7  # Gymnasium's seeds have fewer bits
    assert [int(frame[0].argmax()) // 3 for frame in task.reset(large)[:, 0]] == lit
    task.close()


class Counting(Corridor):
    """Its actions are numbered from 5."""

    action_space = gymnasium.spaces.Discrete(3, start=5)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(action), *rest


def test_actions_start_where_the_environments_do(register):
    register(Counting, script=(Moment(0.0),))
    task = GymnasiumTask(NAME, EnvOptions(3, FRAME))
    task.reset(0)
    task.send(np.array([0, 1, 2]))
    assert task.receive().rewards.tolist() == [5, 6, 7]
    assert task.num_actions == gymnasium_task(NAME).num_actions == 3
    task.close()


# -- images


def test_grey_images_of_the_right_size_stay_as_they_are():
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(to_grey(images, 3, 4), images[:, None])
    assert np.array_equal(to_grey(images[..., None], 3, 4), images[:, None])


def test_colours_are_weighed_as_the_eye_does():
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], dtype=np.uint8)
    assert to_grey(colours[:, None], 1, 4)[0, 0, 0].tolist() == [76, 150, 29, 255]  # 76.245, 149.685, 29.07


def test_a_smaller_image_is_the_mean_of_areas():
    image = np.array([[[0, 10, 100, 100], [20, 32, 100, 101]]], dtype=np.uint8)
    assert to_grey(image, 1, 2)[0, 0].tolist() == [[16, 100]]  # 15.5 and 100.25


def test_a_larger_image_repeats_pixels():
    image = np.array([[[10, 20]]], dtype=np.uint8)
    assert to_grey(image, 2, 4)[0, 0].tolist() == [[10, 10, 20, 20]] * 2


# -- what is refused


class Unusual(Corridor):
    def __init__(self, space, action=None):
        super().__init__((Moment(0.0),))
        self.observation_space = space
        self.action_space = action or self.action_space


def image_space(*shape, dtype=np.uint8):
    return gymnasium.spaces.Box(0, 255, shape, dtype)


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 1), (20, 30, 3)])
def test_images_of_every_usual_shape_are_accepted(register, shape):
    register(Unusual, space=image_space(*shape))
    task = gymnasium_task(NAME)
    assert (task.name, task.num_actions, task.observation) == (NAME, 1, None)


@pytest.mark.parametrize(
    "space", [gymnasium.spaces.Box(-np.inf, np.inf, (5,)), image_space(5), image_space(5, dtype=np.int64)], ids=str
)
def test_boxes_with_one_axis_are_vectors_of_floats(register, space):
    register(Unusual, space=space)
    assert gymnasium_task(NAME).observation == ObservationSpec((5,), "float32", "vector")


def test_an_observation_without_a_rule_is_refused(register):
    """All rules: test_spaces.py."""
    register(Unusual, space=image_space(4, 20, 30, 3))
    with pytest.raises(UserError, match="needs uint8 images"):
        gymnasium_task(NAME)


@pytest.mark.parametrize(
    ("space", "named"),
    [
        (gymnasium.spaces.MultiDiscrete([2, 3]), r"has actions MultiDiscrete\(\[2 3\]\)"),
        (gymnasium.spaces.Box(-1, 1, (2,)), r"has continuous actions Box\(-1.0, 1.0, \(2,\), float32\)"),
    ],
)
def test_actions_that_are_not_discrete_are_refused_with_an_alternative(register, space, named):
    register(Unusual, space=image_space(20, 30), action=space)
    with pytest.raises(UserError, match=rf"{named}; an agent needs a Discrete .* wrapper .*TransformAction"):
        gymnasium_task(NAME)
