"""Views of a task: as a plain environment, as rendered pictures, and as an Atari screen made smaller."""

import gymnasium
import numpy as np
import pytest

from reaper.errors import UserError
from reaper.tasks.arcade import ARCADE
from reaper.tasks.atari_wrapper import _area_weights
from reaper.tasks.identity import IdentifiedTask
from reaper.tasks.observation import ObservationSpec, vector_spec
from reaper.tasks.rendering import RenderedTask
from reaper.tasks.scaling import Scale, ScaledVectors, measure_scale, pad
from reaper.tasks.task import EnvOptions, Step, Task, VectorTask
from reaper.tasks.task_env import TaskEnv, box

NAME = "test/Lamp-v0"


class Lamp(gymnasium.Env):
    """Shows how often it was switched on; ends after four steps, or at a time limit of three for action 2."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2, start=1)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None, image=True):
        self.render_mode, self.image, self.closed = render_mode, image, False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.lit, self.steps = int(self.np_random.integers(50)), 0
        return np.array([self.lit], np.float32), {}

    def step(self, action):
        self.lit, self.steps = self.lit + int(action), self.steps + 1
        return np.array([self.lit], np.float32), float(action), self.steps == 4, self.steps >= 3 and action == 2, {}

    def render(self):
        if not self.image:
            return np.zeros((4, 6))
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[..., 1] = self.lit
        return picture


@pytest.fixture
def register():
    """Registers a lamp under NAME."""
    yield lambda **options: gymnasium.register(NAME, Lamp, kwargs=options)
    gymnasium.registry.pop(NAME, None)


def stepped(task, action):
    task.send(np.array([action]))
    step = task.receive()
    flags = step.terminated[0], step.truncated[0], step.lost_life[0], step.autoreset[0]
    return int(step.observations[0, 1, 0, 0]), float(step.rewards[0]), [bool(flag) for flag in flags]


def test_rendered_pictures_follow_the_episode(register):
    register()
    task = RenderedTask(NAME)
    assert (task.num_envs, task.num_actions) == (1, 2)
    first = task.reset(2**30 + 5)
    assert (first.shape, first.dtype, task.observation.shape) == ((1, 3, 4, 6), np.uint8, (3, 4, 6))
    start = int(first[0, 1, 0, 0])
    assert task.reset(5)[0, 1, 0, 0] == start, "seeds have thirty bits"
    assert not first[0, [0, 2]].any()
    none = [False] * 4
    assert stepped(task, 0) == (start + 1, 1.0, none)
    assert stepped(task, 1) == (start + 3, 2.0, none)
    assert stepped(task, 0) == (start + 4, 1.0, none)
    assert stepped(task, 1) == (start + 6, 2.0, [True, False, False, False]), "a terminal at the time limit"
    shown, reward, flags = stepped(task, 1)
    assert (shown < 50, reward, flags) == (True, 0.0, [False, False, False, True])
    assert stepped(task, 0)[0] == shown + 1
    for expected in ([False] * 4, [False, True, False, False], [False, False, False, True]):
        assert stepped(task, 1)[2] == expected
    assert task.reset(5)[0, 1, 0, 0] == start
    assert stepped(task, 0)[2] == none
    task.close()


def test_what_cannot_be_rendered_is_refused(register):
    register(image=False)
    task = RenderedTask(NAME)
    with pytest.raises(UserError, match="test/Lamp-v0 renders no images"):
        task.reset(0)


class Numbered(VectorTask):
    """Emits 0, 1, 2, ... of any dtype; an episode has three steps, and a seed starts it at the seed."""

    name, num_envs, num_actions = "numbered", 1, 3

    def __init__(self, observation, closed=None):
        self.observation, self.may_use_gpu, self.closed = observation, False, [] if closed is None else closed

    def reset(self, seed):
        self.number, self.age = seed, 0
        return self._emitted()

    def send(self, actions):
        self.actions = actions

    def receive(self):
        autoreset = self.age == 3
        self.age, self.number = (0 if autoreset else self.age + 1), self.number + 1
        flags = np.array([False])
        return Step(self._emitted(), np.array([2.5 * self.actions[0]]), np.array([self.age == 3]), flags, flags, flags)

    def _emitted(self):
        return np.full((1, *self.observation.shape), self.number % 200, self.observation.dtype)

    def close(self):
        self.closed.append(True)


def test_a_plain_environment_resets_by_a_seed_or_with_the_next_step():
    env = TaskEnv(Numbered(ObservationSpec((1, 2, 2))))
    assert env.reset(seed=7)[0].tolist() == [[[7, 7], [7, 7]]]
    for number in (8, 9):
        observation, reward, terminated, truncated, info = env.step(2)
        assert (int(observation[0, 0, 0]), reward, terminated, truncated, info) == (number, 5.0, False, False, {})
    assert env.step(0)[1:4] == (0.0, True, False)
    assert env.reset()[0][0, 0, 0] == 11, "the step after the end is the next episode's first"
    assert env.step(1)[0][0, 0, 0] == 12
    first = env.reset(seed=7)[0][0, 0, 0]
    assert first == 7, "a seed counts in the middle of an episode, too"
    with pytest.raises(UserError, match="numbered has 3 actions, so there is no action 3; choose with"):
        env.step(3)
    with pytest.raises(ValueError, match="one copy of a task, not 2"):
        TaskEnv(ARCADE["catch"].open(EnvOptions(2, ObservationSpec((1, 16, 16)))))


def test_an_unfinished_episode_is_reset_by_a_seed_of_its_own():
    env = TaskEnv(Numbered(ObservationSpec((1, 2, 2))))
    env.reset(seed=7)
    env.step(0)
    drawn = int(np.random.Generator(np.random.PCG64(7)).integers(2**30))
    assert env.reset()[0][0, 0, 0] == drawn % 200


def test_a_plain_environment_shows_pictures_of_images_only():
    env = TaskEnv(Numbered(ObservationSpec((1, 2, 3))))
    env.reset(seed=7)
    assert env.render().tolist() == [[[7] * 3] * 3] * 2
    told = IdentifiedTask(Numbered(ObservationSpec((1, 2, 3))), 0, ObservationSpec((3, 2, 3), identity=2))
    env = TaskEnv(told)
    assert env.reset(seed=4)[0][:, 0, 0].tolist() == [4, 255, 0]
    assert env.render().tolist() == [[[4] * 3] * 3] * 2
    vectors = TaskEnv(Numbered(vector_spec(2)))
    vectors.reset(seed=0)
    with pytest.raises(UserError, match="numbered emits vectors, which are no pictures"):
        vectors.render()


def test_spaces_of_observations():
    assert box(ObservationSpec((1, 2, 2))) == gymnasium.spaces.Box(0, 255, (1, 2, 2), np.uint8)
    assert box(vector_spec(3)) == gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)


# -- scales


def test_vectors_are_scaled_and_padded_wherever_they_come_from():
    closed = []
    envs = ScaledVectors(Numbered(vector_spec(2), closed), Scale((3.0, 1.0), (1.0, 2.0)), vector_spec(3))
    assert (envs.name, envs.num_envs, envs.num_actions, envs.may_use_gpu) == ("numbered", 1, 3, False)
    assert envs.reset(5)[0] == pytest.approx([np.log(3), np.log(3), 0])
    envs.send(np.array([1]))
    step = envs.receive()
    assert step.observations[0] == pytest.approx([np.log(4), np.log(3.5), 0])
    assert step.rewards.tolist() == [2.5]
    envs.close()
    assert closed == [True]
    assert pad(np.ones((2, 3)), vector_spec(5)).tolist() == [[1, 1, 1, 0, 0]] * 2


class Pulse(VectorTask):
    """Of each environment: its number of steps, a constant, and one that hardly changes."""

    name, num_actions, may_use_gpu = "pulse", 4, False
    played: list = []  # noqa: RUF012

    def __init__(self, options):
        self.num_envs, self.observation = options.num_envs, options.observation

    def reset(self, seed):
        Pulse.played.append((self.num_envs, seed))
        self.steps = 0
        return self._emitted()

    def send(self, actions):
        Pulse.played.append(actions.tolist())

    def receive(self):
        self.steps += 1
        none = np.zeros(self.num_envs, bool)
        return Step(self._emitted(), np.zeros(self.num_envs), none, none, none, none)

    def _emitted(self):
        faint = 1_000 + 1e-4 * (self.steps % 2)  # a standard deviation of 5e-8 of its size
        return np.tile([self.steps, -4.0, faint], (self.num_envs, 1))


def test_a_scale_is_measured_on_251_observations_of_8_environments():
    Pulse.played.clear()
    task = Task("pulse", "Pulse", 4, Pulse, vector_spec(3))
    scale = measure_scale(task)
    assert Pulse.played[0] == (8, 0)
    assert np.shape(Pulse.played[1:]) == (250, 8)
    assert set(np.ravel(Pulse.played[1:])) == {0, 1, 2, 3}
    # 0 to 250: the mean is 125, the variance (251^2 - 1)/12 = 5250. Three digits are kept.
    assert scale.centres == (125.0, -4.0, 1000.0)
    assert scale.units == (72.5, 1.0, 1.0)


@pytest.mark.parametrize(
    "numbers",
    [
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [1.0, 0.0]),
        ([1.0, 2.0], [1.0, -1.0]),
        ([1.0, np.inf], [1.0, 1.0]),
        ([1.0, 2.0], [np.nan, 1.0]),
    ],
)
def test_a_scale_has_a_centre_and_a_unit_for_each_number(numbers):
    assert Scale.of("a", ([1.0, 2.0], [1.0, 0.1]), 2).units == (1.0, 0.1)
    with pytest.raises(UserError, match="the scale of a does not fit observations of 2 numbers"):
        Scale.of("a", numbers, 2)


def test_a_smaller_screen_is_made_of_areas():
    # Three pixels become two: each covers one and a half of them.
    assert _area_weights(3, 2) == pytest.approx(np.array([[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3]]))
    assert _area_weights(4, 2) == pytest.approx(np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]))
    assert _area_weights(2, 3) == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0, 1]]))
