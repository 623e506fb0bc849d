"""Loading a trained agent, predicting actions and playing."""

import warnings

import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

import reaper
from reaper.errors import UserError
from reaper.storage.store import Store
from reaper.tasks.sequence import find_task
from reaper.tasks.task_env import TaskEnv


def test_predict_takes_one_state_or_many(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    assert agent.tasks == ("catch", "dodge", "frog")
    states = np.random.default_rng(0).integers(0, 256, (5, *agent.observation.shape), dtype=np.uint8)
    many, _ = agent.predict(states)
    assert many.shape == (5,)
    assert [int(agent.predict(state)[0]) for state in states] == many.tolist()


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 16, 16)), np.zeros((2, 15, 16), np.uint8), np.zeros((16, 16), np.uint8)]
)
def test_a_wrong_observation_is_refused(tiny_run, wrong):
    with pytest.raises(UserError, match="an observation is uint8"):
        reaper.load(tiny_run, condition="RePR").predict(wrong)


def test_earlier_memories_and_stage_folders_can_be_opened(tiny_run):
    early = reaper.load(tiny_run, condition="RePR", after_task=1)
    assert early.tasks == ("catch",)
    run = next(run for run in Store.open(tiny_run).runs() if run.condition_name == "RePR")
    again = reaper.load(tiny_run / "stages" / run.memories[0])
    assert again.tasks == ("catch",)
    with pytest.raises(UserError, match="1 to 3"):
        reaper.load(tiny_run, condition="RePR", after_task=4)
    with pytest.raises(UserError, match="no long-term memory"):
        reaper.load(tiny_run / "stages" / run.teachers[0])


def test_an_episode_is_played_to_its_end(tiny_run):
    agent = reaper.load(tiny_run, condition="no-reh")
    frames, scores = zip(*agent.play("catch", seed=3), strict=True)
    assert len(frames) == 200
    assert frames[0].shape == (16, 16)
    assert scores[-1] == list(agent.play("catch", seed=3))[-1][1]


def test_playing_and_predicting_few_actions_use_one_thread(tiny_run):
    """A second thread makes so small a batch no faster, and on a busy machine much slower."""
    agent, used = reaper.load(tiny_run, condition="no-reh"), []
    agent.network.register_forward_hook(lambda *_: used.append(torch.get_num_threads()))
    states = np.zeros((64, *agent.observation.shape), np.uint8)
    torch.set_num_threads(2)
    try:
        list(agent.play("catch"))
        agent.predict(states[0])
        agent.predict(states[:3])
        assert set(used) == {1}
        agent.predict(states)
        assert used[-1] == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)  # as in all other tests


def test_exploration_follows_the_evaluation_settings(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    state = np.zeros((2_000, *agent.observation.shape), np.uint8)
    greedy = int(agent.predict(state[0])[0])
    explored = agent.predict(state, deterministic=False)[0]
    epsilon = agent.context.settings.evaluation.epsilon
    # A random action is the greedy one in one of six cases.
    assert abs(float((explored != greedy).mean()) - epsilon * 5 / 6) < 0.02


# -- the convention of Stable-Baselines3


def test_frames_are_stacked_per_environment_from_the_start_of_its_episode(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    a, b, c = np.random.default_rng(0).integers(0, 256, (3, 2, *agent.observation.frame.shape), dtype=np.uint8)
    state, steps = None, [(a, [True, True]), (b, [False, True]), (c, [False, False])]
    stacks = [[(a, a), (a, a)], [(a, b), (b, b)], [(b, c), (b, c)]]  # (older, newer) frame of either environment
    for (frames, starts), expected in zip(steps, stacks, strict=True):
        actions, state = agent.predict(frames, state=state, episode_start=np.array(starts))
        states = np.stack([np.concatenate([old[i], new[i]]) for i, (old, new) in enumerate(expected)])
        assert np.array_equal(state, states)
        assert actions.tolist() == agent.predict(states)[0].tolist()
    action, single = agent.predict(a[0], episode_start=[True])
    assert (action.shape, single.shape) == ((), (1, *agent.observation.shape))


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({}, "a single frame is no state"),
        ({"episode_start": [True, False]}, "a single frame is no state"),
        ({"episode_start": [True]}, "episode_start has 1 entries for 2 observations"),
        ({"state": np.zeros((2, 3, 16, 16), np.uint8)}, r"is uint8 of shape \(2, 2, 16, 16\), not \(2, 3, 16, 16\)"),
        ({"state": False}, r"not \(\)"),
    ],
)
def test_frames_without_what_came_before_are_refused(tiny_run, more, complaint):
    agent = reaper.load(tiny_run, condition="RePR")
    with pytest.raises(UserError, match=complaint):
        agent.predict(np.zeros((2, *agent.observation.frame.shape), np.uint8), **more)


def returns(agent, make, num_envs):
    """What SB3 measures on a vectorised environment, seeded so that another one plays the same episodes."""
    envs = DummyVecEnv([make] * num_envs)
    envs.seed(7)
    return evaluate_policy(agent, envs, n_eval_episodes=2 * num_envs, return_episode_rewards=True, warn=False)


def test_stable_baselines3_evaluates_an_agent_on_plain_and_vectorised_environments():
    agent = reaper.load("pretrained:arcade-3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is wrapped with a Monitor
        mean, deviation = evaluate_policy(agent, agent.make_env("catch"), n_eval_episodes=2)
    assert (mean, deviation) == (28.0, 0.0)  # it catches everything
    rewards, lengths = returns(agent, lambda: agent.make_env("shooter"), num_envs=3)
    assert len(rewards) == 6
    assert min(rewards) > 25
    # An environment of single frames leads to the same episodes: predict carries the stacks.
    frames = returns(agent, lambda: TaskEnv(agent.context.open(find_task("shooter"), 1)), num_envs=3)
    assert frames == (rewards, lengths)
    # So does wrapping that environment.
    wrapped = returns(agent, lambda: agent.wrap(TaskEnv(agent.context.open(find_task("shooter"), 1))), num_envs=3)
    assert wrapped == (rewards, lengths)


def test_an_environment_of_a_task_is_made_by_its_short_name(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    env = agent.make_env("Frog")
    assert env.reset(seed=0)[0].shape == agent.observation.shape
    with pytest.raises(UserError, match="unknown task 'pong'"):
        agent.make_env("pong")
