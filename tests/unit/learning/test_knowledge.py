"""Kinds of knowledge: the first long-term agent of each, and what it is compared with."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.episode_statistics import EpisodeStatistics
from reaper.learning.knowledge import Policy, QValues, StandardisedAdvantages, StandardisedQValues
from reaper.study.conditions import knowledge_for

CONTEXT = Context(with_overrides(ARCADE, TINY), 6, 0, ("knowledge",))
STATES = torch.randint(0, 256, (20, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def test_the_first_agent_has_its_teachers_values_standardised():
    network = CONTEXT.q_network()
    weights = StandardisedQValues().adopt(state_tensors(network), 2.0, 4.0, 6)
    with torch.no_grad():
        torch.testing.assert_close(CONTEXT.q_network(weights)(STATES), (network(STATES) - 2.0) / 4.0)


def test_the_first_agent_has_its_teachers_advantages_and_zeros_for_actions_that_the_task_lacks():
    network = CONTEXT.q_network()
    weights = StandardisedAdvantages().adopt(state_tensors(network), 2.0, 4.0, 3)
    with torch.no_grad():
        values, outputs = network(STATES)[:, :3], CONTEXT.q_network(weights)(STATES)
    torch.testing.assert_close(outputs[:, :3], (values - values.mean(dim=1, keepdim=True)) / 4.0)
    assert outputs[:, 3:].tolist() == [[0.0] * 3] * 20


def test_advantages_are_distilled_whatever_the_value_of_a_state():
    student = torch.tensor([[-0.5, 0.5, 9.0]])
    for value in (0.0, 100.0):
        targets = torch.tensor([[value - 2.0, value + 2.0]])  # of a task with two actions
        assert StandardisedAdvantages().distill(student, targets, 7.0, 4.0).tolist() == [0.0]
        assert StandardisedAdvantages().distill(student, targets, 7.0, 2.0).tolist() == [0.5]


def test_settings_replace_q_values_by_advantages_and_nothing_else():
    asked = with_overrides(ARCADE, {"long-term.targets": "advantages"})
    kinds = ("Q-values", "standardised Q-values", "policy")
    found = [type(knowledge_for(kind, settings)) for settings in (ARCADE, asked) for kind in kinds]
    assert found == [QValues, StandardisedQValues, Policy, StandardisedAdvantages, StandardisedQValues, Policy]


@pytest.mark.parametrize("knowledge", [QValues(), Policy()])
def test_other_first_agents_are_their_teachers(knowledge):
    weights = state_tensors(CONTEXT.q_network())
    assert knowledge.adopt(weights, 2.0, 4.0, 3) is weights


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
