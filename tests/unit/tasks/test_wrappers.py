"""What `Agent.wrap` makes of an environment is what training made of it."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from reaper.errors import UserError
from reaper.tasks import atari, atari_wrapper
from reaper.tasks.arcade import ARCADE
from reaper.tasks.atari_wrapper import nearest_action
from reaper.tasks.gymnasium import gymnasium_task
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import open_task
from reaper.tasks.task import EnvOptions
from reaper.tasks.task_env import TaskEnv
from reaper.tasks.wrappers import stack_frames, wrap

SMALL = ObservationSpec((1, 20, 20)).stacked(3)
ATARI = ObservationSpec((1, 84, 84)).stacked(4)
NO_NOOPS = {**atari.EMULATOR_SETTINGS, "noop_max": atari.EmulatorSetting(0, "")}


class Drift(gymnasium.Env):
    """A cart in colour that actions 1 to 3 push and that drifts at random. Ends beyond the track or after 12 steps."""

    observation_space = Box(0, 255, (40, 60, 3), np.uint8)
    action_space = Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = 30, 0
        return self._image(), {}

    def step(self, action):
        self.at += 5 * (int(action) - 2) + int(self.np_random.integers(-4, 5))
        self.time += 1
        return self._image(), float(self.at), not 5 <= self.at <= 55, self.time >= 12, {}

    def _image(self):
        image = np.full((40, 60, 3), (200, 30, 90), np.uint8)
        image[20:30, max(0, self.at - 6) : self.at + 6] = (10, 250, 40)
        return image


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register("test/Drift-v0", Drift)
    yield
    del gymnasium.registry["test/Drift-v0"]


def trained_on(task, spec, actions):
    """The frames and rewards of one episode that a task shows an agent in training."""
    envs = open_task(task, EnvOptions(1, spec.frame))
    frames, rewards = [envs.reset(5)[0].copy()], []
    for action in actions:
        envs.send(np.array([action]))
        step = envs.receive()
        frames.append(step.observations[0].copy())
        rewards.append(float(step.rewards[0]))
        if step.done[0]:
            break
    envs.close()
    return frames, rewards


def shown(env, actions):
    """The states and rewards of the same episode in a plain environment."""
    state, _ = env.reset(seed=5)
    states, rewards = [state], []
    for action in actions:
        state, reward, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(state)
        states.append(state)
        rewards.append(reward)
        if terminated or truncated:
            break
    return states, rewards


def stacked(frames, size):
    """The state after each frame; the first frame stands in for those before it."""
    return [np.concatenate([frames[max(0, i - back)] for back in reversed(range(size))]) for i in range(len(frames))]


def test_an_image_environment_looks_as_in_training():
    actions = [0, 1, 2, 3, 5, 0, 2, 2, 1, 4, 1, 0]  # 3 to 5 become the first in an environment with three
    known = [action if action < 3 else 0 for action in actions]
    frames, rewards = trained_on(gymnasium_task("test/Drift-v0"), SMALL, known)
    env = wrap(gymnasium.make("test/Drift-v0"), SMALL, 6)
    assert (env.observation_space.shape, env.action_space) == ((3, 20, 20), Discrete(3))
    states, seen = shown(env, actions)
    assert seen == rewards
    assert len(rewards) > 4
    assert np.array_equal(states, stacked(frames, 3))


def test_an_arcade_task_is_a_gymnasium_environment():
    spec = ObservationSpec((1, 16, 16)).stacked(2)
    env = stack_frames(TaskEnv(open_task(ARCADE["catch"], EnvOptions(1, spec.frame))), spec)
    check_env(env.unwrapped, skip_render_check=True)
    actions = [1, 2, 1, 1, 0] * 40
    frames, rewards = trained_on(ARCADE["catch"], spec, actions)
    states, seen = shown(env, actions)
    assert seen == rewards
    assert np.array_equal(states, stacked(frames, 2))
    assert env.render().shape == (16, 16, 3)
    # After an episode, another one follows without a seed.
    again, _ = env.reset()
    assert not np.array_equal(again, states[0])
    assert wrap(env.unwrapped, spec, 6).reset(seed=5)[0].tolist() == states[0].tolist()


def test_atari_looks_as_in_training(monkeypatch):
    pytest.importorskip("ale_py")
    monkeypatch.setattr(atari, "EMULATOR_SETTINGS", NO_NOOPS)  # the two would draw different numbers of them
    monkeypatch.setattr(atari_wrapper, "NOOP_MAX", 1)
    actions = np.random.default_rng(0).integers(18, size=250).tolist()
    frames, rewards = trained_on(atari.atari_task("ALE/Pong-v5"), ATARI, actions)
    env = wrap(gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0), ATARI, 18)
    states, seen = shown(env, actions)  # Pong's own action set has 6 of the 18
    assert seen == rewards
    assert -1.0 in rewards
    difference = np.abs(np.array(states).astype(int) - np.array(stacked(frames, 4)))
    assert difference.max() <= 1  # a mean half-way between two grey levels may be rounded either way
    assert (difference > 0).mean() < 1e-3


def test_what_an_atari_environment_does_on_its_own_is_reported():
    pytest.importorskip("ale_py")
    with pytest.warns(UserWarning, match=r"skips frames on its own \(4\).*sticky actions \(0.25\).*frameskip=1"):
        env = wrap(gymnasium.make("ALE/Pong-v5"), ATARI, 18)
    env.reset(seed=0)
    assert env.step(3)[4]["episode_frame_number"] % 4 == 0


def test_atari_episodes_begin_with_no_ops():
    pytest.importorskip("ale_py")
    env = wrap(gymnasium.make("ALE/Boxing-v5", frameskip=1, repeat_action_probability=0.0), ATARI, 18)
    numbers = [env.reset(seed=0)[1]["episode_frame_number"]]
    numbers += [env.reset()[1]["episode_frame_number"] for _ in range(40)]
    assert 0 <= min(numbers) < 5 < 24 < max(numbers) <= 29
    assert env.reset(seed=0)[1]["episode_frame_number"] == numbers[0]


def test_actions_that_a_game_ignores_become_those_it_has():
    pong = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    found = {wanted: pong[nearest_action(wanted, pong)] for wanted in ("UP", "UPRIGHT", "DOWNLEFTFIRE", "UPFIRE")}
    assert found == {"UP": "NOOP", "UPRIGHT": "RIGHT", "DOWNLEFTFIRE": "LEFTFIRE", "UPFIRE": "FIRE"}
    assert nearest_action("DOWN", ["NOOP", "UP", "DOWN"]) == 2


class Other(gymnasium.Env):
    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        (Other(Box(0, 255, (9, 9), np.uint8), Box(-1, 1, (2,))), "Other has continuous actions Box"),
        (Other(Box(-1, 1, (4,)), Discrete(2)), "Other observes Box.*this agent needs 1x20x20 uint8 images"),
        (Other(Discrete(3), Discrete(2)), "Other observes Discrete"),
        (object(), "one gymnasium.Env, not builtins.object; wrap each copy"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_the_reason(env, complaint):
    with pytest.raises(UserError, match=complaint):
        wrap(env, SMALL, 6)
