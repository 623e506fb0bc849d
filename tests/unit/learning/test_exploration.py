"""Epsilon-greedy actions: the schedule, and random actions that are sampled ahead."""

import pytest
import torch

from reaper.config.settings import TrainingSettings
from reaper.learning.exploration import EpsilonGreedy, epsilon_at


@pytest.mark.parametrize(
    ("agent_steps", "epsilon"),
    [(0, 1.0), (49_999, 1.0), (500_000, 0.55), (1_000_000, 0.1), (19_000_000, 0.1)],
)
def test_epsilon_follows_the_papers_schedule(agent_steps, epsilon):
    assert epsilon_at(agent_steps, TrainingSettings()) == pytest.approx(epsilon)


def test_sampling_twice_samples_once():
    exploration, rng = EpsilonGreedy(8, 6), torch.Generator().manual_seed(0)
    exploration.sample(0.5, rng)
    sampled, state = exploration.sampled, rng.get_state()
    exploration.sample(0.5, rng)
    assert exploration.sampled is sampled
    assert torch.equal(rng.get_state(), state)


@pytest.mark.parametrize(("epsilon", "explore"), [(0.0, False), (1.0, True)])
def test_epsilon_is_the_probability_of_a_random_action(epsilon, explore):
    exploration = EpsilonGreedy(100, 6)
    exploration.sample(epsilon, torch.Generator().manual_seed(0))
    actions, chosen = exploration.take()
    assert (chosen == explore).all()
    assert set(actions) == set(range(6))
    assert exploration.sampled is None
