"""Kinds of knowledge: the first long-term agent of each, and what it is compared with."""

import math

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.episode_statistics import EpisodeStatistics
from reaper.learning.knowledge import Policy, QValues, SoftPolicy, StandardisedAdvantages, StandardisedQValues
from reaper.learning.teachers import DQNTeacher
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


def test_the_first_agent_has_its_teachers_soft_policy_and_no_action_that_the_task_lacks():
    network = CONTEXT.q_network()
    teacher = DQNTeacher(CONTEXT, state_tensors(network), 2.0, 4.0, advantage_std=0.02)
    knowledge = SoftPolicy(temperature=0.5)
    weights = knowledge.adopt(state_tensors(network), 2.0, knowledge.deviation(teacher), 3)
    with torch.no_grad():
        values, outputs = network(STATES)[:, :3], CONTEXT.q_network(weights)(STATES)
    torch.testing.assert_close(outputs[:, :3].softmax(dim=1), (values / 0.01).softmax(dim=1))
    assert outputs[:, 3:].tolist() == [[-10.0] * 3] * 20


def test_a_soft_policy_is_distilled_from_the_actions_of_a_task():
    targets = torch.tensor([[0.0, 2.0 * math.log(3)]])  # probabilities 1/4 and 3/4 with a temperature of 2
    student = torch.tensor([[0.0, 0.0, math.log(2)]])  # probabilities 1/4, 1/4 and 1/2; the task has no third action
    assert SoftPolicy(9.0).distill(student, targets, 7.0, 2.0).tolist() == pytest.approx([math.log(4)])
    surer = torch.tensor([[0.0, math.log(3), -100.0]])
    entropy = math.log(4) - 0.75 * math.log(3)
    assert SoftPolicy(9.0).distill(surer, targets, 7.0, 2.0).tolist() == pytest.approx([entropy])


def test_settings_replace_q_values_and_nothing_else():
    targets = ("values", "advantages", "policy")
    asked = [with_overrides(ARCADE, {"long-term.targets": each}) for each in targets]
    found = [type(knowledge_for("Q-values", settings)) for settings in asked]
    assert found == [QValues, StandardisedAdvantages, SoftPolicy]
    for settings in asked:
        others = [type(knowledge_for(kind, settings)) for kind in ("standardised Q-values", "policy")]
        assert others == [StandardisedQValues, Policy]
    knowledge = knowledge_for("Q-values", with_overrides(asked[2], {"long-term.temperature": 0.3}))
    assert isinstance(knowledge, SoftPolicy)
    assert knowledge.temperature == 0.3


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


@pytest.mark.parametrize("knowledge", [StandardisedAdvantages(), SoftPolicy(0.1)], ids=["advantages", "policy"])
def test_in_teacher_units_is_undone_by_adopting(knowledge):
    """Up to what all actions have in common, which neither advantages nor a softmax depend on."""
    weights = {"values.weight": torch.randn(6, 4), "values.bias": torch.randn(6), "hidden.bias": torch.randn(4)}
    larger = knowledge.in_teacher_units(weights, 2.5)
    assert torch.equal(larger["values.bias"], 2.5 * weights["values.bias"])
    again = knowledge.adopt(larger, 0.0, 2.5, 6)
    for name in ("values.weight", "values.bias"):
        assert torch.allclose(again[name], weights[name] - weights[name].mean(dim=0), atol=1e-6)
    assert torch.equal(again["hidden.bias"], weights["hidden.bias"])


def test_values_have_the_teachers_units_already():
    weights = {"values.weight": torch.randn(6, 4)}
    assert QValues().in_teacher_units(weights, 2.5) is weights
