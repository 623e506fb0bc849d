"""A sequence of tasks as one Gymnasium environment."""

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import DQN

import reaper
from reaper.errors import UserError


def episode(env, action=0):
    """Steps until the episode ends; returns the number of steps and the last infos."""
    for number in range(1, 10_000):
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return number, truncated, info
    raise AssertionError


@pytest.mark.parametrize("tasks", ["arcade-3", "CartPole-v1,Acrobot-v1"])
def test_gymnasium_finds_nothing_to_object_to(tasks):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", message=".*(Infinity|infinite|not within|no render|normalized|Box observation).*"
        )
        check_env(reaper.make_env(tasks), skip_render_check=True)


def test_tasks_follow_one_another_and_infos_say_so():
    env = reaper.make_env("catch,dodge,frog", steps_per_task=250)  # catch has episodes of 199 steps
    observation, info = env.reset(seed=0)
    assert observation.shape == (2, 16, 16)
    assert info == {"task": "catch", "task_index": 0, "task_switch": True}
    assert episode(env)[0] == 199
    assert env.reset()[1]["task_switch"] is False
    steps, truncated, info = episode(env)
    assert (steps, truncated, info["task"]) == (51, True, "catch")
    assert env.reset()[1] == {"task": "dodge", "task_index": 1, "task_switch": True}
    done = 0
    while env.reset()[1]["task_index"] == 1:
        done += episode(env)[0]
    assert done == 250
    for _ in range(3):  # the last task goes on
        episode(env)
        assert env.reset()[1] == {"task": "frog", "task_index": 2, "task_switch": False}
    assert env.reset(seed=1)[1]["task"] == "catch"


def test_a_seed_and_actions_lead_to_the_same_steps():
    def play():
        env = reaper.make_env("catch,dodge", steps_per_task=30)
        seen = [env.reset(seed=5)[0]]
        for action in np.random.default_rng(0).integers(0, 6, 100):
            observation, reward, terminated, truncated, _ = env.step(action)
            seen += [observation, reward]
            if terminated or truncated:
                seen.append(env.reset()[0])
        return np.concatenate([np.ravel(part) for part in seen])

    assert np.array_equal(play(), play())


def test_an_action_that_a_task_lacks_is_its_first():
    env = reaper.make_env("CartPole-v1,Acrobot-v1")
    assert env.action_space.n == 3
    assert env.observation_space.shape == (6,)
    steps = []
    for action in (0, 2):
        env.reset(seed=0)
        steps.append(env.step(action)[0])
    assert np.array_equal(*steps)


def test_an_sb3_agent_can_be_trained_on_it():
    env = reaper.make_env("catch,dodge", steps_per_task=40)
    model = DQN("MlpPolicy", env, learning_starts=10, buffer_size=200, batch_size=8, device="cpu")
    model.learn(120)
    assert env.sequence.names[env._place] == "dodge"


def test_wrong_arguments_are_one_line():
    with pytest.raises(UserError, match="at least 1"):
        reaper.make_env("catch", steps_per_task=0)
    with pytest.raises(UserError, match="unknown"):
        reaper.make_env("ctch")
