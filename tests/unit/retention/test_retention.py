"""What retention methods add to the loss, against arithmetic done by hand."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.knowledge import Policy, QValues, StandardisedQValues
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.retention import EWC, NoRetention, OnlineEWC
from reaper.retention.rehearsal import RecalledItems

SETTINGS = with_overrides(ARCADE, {**TINY, "long-term.alpha": 0.25})
CONTEXT = Context(SETTINGS, 6, 0, ("test",))
LOSSES = torch.tensor([1.0, 3.0])


def network(shift: float = 0.0):
    made = CONTEXT.q_network()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(shift)
    return made


def constant(value: float) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(p, value) for name, p in network().named_parameters()}


PARAMETERS = sum(p.numel() for p in network().parameters())


def test_nothing_adds_nothing():
    memory = LongTermMemory(state_tensors(network()), ("a",))
    recall = NoRetention().recall(CONTEXT, memory, QValues(), network())
    assert recall.draw(5) == ()
    assert recall.combine(LOSSES, list(network(5.0).parameters())).item() == 2.0


def test_ewc_has_a_penalty_for_every_earlier_task():
    retained = {f"fisher.0.{name}": value for name, value in constant(2.0).items()}
    retained |= {f"fisher.1.{name}": value for name, value in constant(3.0).items()}
    retained |= {f"anchor.0.{name}": value for name, value in state_tensors(network(-0.5)).items()}
    memory = LongTermMemory(state_tensors(network()), ("a", "b"), retained)
    recall = EWC(ewc_lambda=4.0).recall(CONTEXT, memory, QValues(), network())
    # The second anchor is the agent itself: nothing. The first is 0.5 away everywhere: 2 * 0.25 a parameter.
    at_agent = recall.combine(LOSSES, list(network().parameters())).item()
    assert at_agent == pytest.approx(2.0 + 4.0 / 2 * 2.0 * 0.25 * PARAMETERS, rel=1e-4)
    # Moved by 0.1: 2 * 0.36 + 3 * 0.01 a parameter.
    moved = recall.combine(LOSSES, list(network(0.1).parameters())).item()
    assert moved == pytest.approx(2.0 + 4.0 / 2 * (2.0 * 0.36 + 3.0 * 0.01) * PARAMETERS, rel=1e-4)


def test_online_ewc_has_one_penalty_anchored_at_the_agent():
    retained = {f"fisher.{name}": value for name, value in constant(0.5).items()}
    memory = LongTermMemory(state_tensors(network()), ("a", "b", "c"), retained)
    recall = OnlineEWC(ewc_lambda=10.0).recall(CONTEXT, memory, QValues(), network())
    assert recall.combine(LOSSES, list(network().parameters())).item() == pytest.approx(2.0)
    moved = recall.combine(LOSSES, list(network(0.1).parameters())).item()
    assert moved == pytest.approx(2.0 + 10.0 / 2 * 0.5 * 0.01 * PARAMETERS, rel=1e-4)


def test_the_online_fisher_is_normalised_then_decayed():
    states = Items(torch.randint(0, 256, (80, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8))
    memory = LongTermMemory({}, ("a",), {f"fisher.{name}": value for name, value in constant(1.0).items()})
    first = OnlineEWC().remember(CONTEXT, None, network(), states).retained
    second = OnlineEWC().remember(CONTEXT, memory, network(), states).retained
    values = torch.cat([value.flatten() for value in first.values()])
    assert (values.min().item(), values.max().item()) == (0.0, 1.0)
    for name, value in first.items():
        torch.testing.assert_close(second[name], 0.99 * 1.0 + value)


def test_rehearsed_items_are_weighed_against_the_new_task():
    items = Items(torch.zeros(4, 2, 16, 16, dtype=torch.uint8), torch.ones(4, 6))
    recall = RecalledItems(CONTEXT, items, QValues(), tasks_before=1)
    states, known = recall.draw(10)
    assert states.shape == (10, 2, 16, 16)
    answers = torch.full((10, 6), 3.0)  # off by two in each of six actions: 24
    loss = recall.combine(torch.tensor(2.0), [], answers, known)
    assert loss.item() == pytest.approx(0.25 * 2.0 + 0.75 * 24.0)


def test_knowledge_teaches_what_it_says():
    teacher, student = torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[0.0, 0.0, 0.0]])
    assert QValues().teach(student, teacher, 0, 0).tolist() == [35.0]  # 1 + 25 + 9
    # Mean 3, deviation 2: the teacher says -1, 1, 0.
    assert StandardisedQValues().teach(student, teacher, 3.0, 2.0).tolist() == [2.0]
    # Three equal logits: the best action has probability 1/3, and -log(1/3) = 1.098612.
    assert Policy().teach(student, teacher, 0, 0).item() == pytest.approx(1.098612)


@pytest.mark.parametrize("method", [EWC(), OnlineEWC()])
def test_the_fisher_matrix_of_a_network_that_folds_its_frames_is_the_same(method):
    """As on a GPU: a folded network calls no layer, and the Fisher matrix is made layer by layer."""
    states = torch.randint(0, 256, (64, 2, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = []
    for folds in (False, True):
        agent = network()
        agent.space_to_depth = folds
        found.append(method.remember(CONTEXT, None, agent, Items(states)).retained)
    assert found[0].keys() == found[1].keys()
    for name, tensor in found[0].items():
        assert torch.equal(tensor, found[1][name]), name
