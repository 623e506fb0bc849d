"""Kinds of knowledge: the first long-term agent of each, and what it is compared with."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.episode_statistics import EpisodeStatistics
from reaper.learning.knowledge import Policy, QValues, StandardisedQValues

CONTEXT = Context(with_overrides(ARCADE, TINY), 6, 0, ("knowledge",))
STATES = torch.randint(0, 256, (20, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def test_the_first_agent_has_its_teachers_values_standardised():
    network = CONTEXT.q_network()
    weights = StandardisedQValues().adopt(state_tensors(network), 2.0, 4.0)
    with torch.no_grad():
        torch.testing.assert_close(CONTEXT.q_network(weights)(STATES), (network(STATES) - 2.0) / 4.0)


@pytest.mark.parametrize("knowledge", [QValues(), Policy()])
def test_other_first_agents_are_their_teachers(knowledge):
    weights = state_tensors(CONTEXT.q_network())
    assert knowledge.adopt(weights, 2.0, 4.0) is weights


def test_what_was_learnt_is_retained_unchanged():
    student, previous = torch.zeros(1, 3), torch.tensor([[1.0, 5.0, 3.0]])
    for knowledge in (QValues(), StandardisedQValues()):
        assert knowledge.retain(student, previous).tolist() == [35.0]  # 1 + 25 + 9


def test_an_unfinished_episode_is_dropped_at_a_reset(make_step):
    statistics = EpisodeStatistics(2)
    statistics.add(make_step([1.0, 2.0], [False, False]))
    statistics.reset()
    statistics.add(make_step([4.0, 8.0], [True, False]))
    assert statistics.take() == [4.0]
    statistics.add(make_step([16.0, 32.0], [True, True]))
    assert statistics.take() == [16.0, 40.0]
    assert statistics.take() == []


@pytest.fixture
def make_step():
    import numpy as np

    from reaper.tasks.task import Step

    def step(rewards, ends):
        never = np.zeros(2, dtype=bool)
        return Step(np.zeros(2), np.array(rewards, np.float32), np.array(ends), never, never, never)

    return step
