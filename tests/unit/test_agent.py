"""Loading a trained agent, predicting actions and playing."""

import numpy as np
import pytest

import reaper
from reaper.errors import UserError
from reaper.storage.store import Store


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


def test_exploration_follows_the_evaluation_settings(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    state = np.zeros((2_000, *agent.observation.shape), np.uint8)
    greedy = int(agent.predict(state[0])[0])
    explored = agent.predict(state, deterministic=False)[0]
    epsilon = agent.context.settings.evaluation.epsilon
    # A random action is the greedy one in one of six cases.
    assert abs(float((explored != greedy).mean()) - epsilon * 5 / 6) < 0.02
