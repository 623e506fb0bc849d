"""Teachers: what consolidation asks of them, whoever they are."""

from dataclasses import replace

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.learning.knowledge import Policy, QValues
from reaper.learning.long_term import Consolidation
from reaper.learning.objectives import Distillation
from reaper.learning.teachers import TEACHERS, DQNTeacher, load_teacher
from reaper.memory.long_term import LongTermMemory
from reaper.retention import NoRetention
from reaper.tasks.sequence import find_task

CONTEXT = Context(with_overrides(ARCADE, TINY), 6, 0, ("consolidate", "catch", "dodge"))
TASKS = (find_task("catch"), find_task("dodge"))


class Elsewhere:
    """A teacher that is no network of ours: always prefers the same action."""

    kind, value_mean, value_std = "logits", 0.0, 1.0

    def __init__(self):
        self.policy = torch.nn.Module()
        self.policy.forward = self.outputs

    def outputs(self, states):
        return torch.eye(6)[[2] * len(states)]

    def state(self):
        return None


def consolidation(teacher, knowledge):
    return Consolidation(CONTEXT, TASKS, Distillation(), NoRetention(), knowledge, teacher)


def test_a_dqn_teaches_by_its_q_values():
    network = CONTEXT.q_network()
    teacher = load_teacher(CONTEXT, state_tensors(network), {"mean": 0.5, "deviation": 2.0})
    assert isinstance(teacher, DQNTeacher)
    assert (teacher.kind, teacher.value_mean, teacher.value_std) == ("values", 0.5, 2.0)
    states = torch.randint(0, 256, (3, *CONTEXT.observation.shape), dtype=torch.uint8)
    assert torch.equal(teacher.outputs(states), network(states))
    assert torch.equal(teacher.policy(states), network(states))


def test_a_residual_teacher_answers_in_the_compute_dtype_on_a_cpu():
    def outputs(dtype, residual=True):
        context = replace(CONTEXT, compute_dtype=dtype)
        network = context.q_network(residual=residual)
        torch.nn.init.normal_(network.values.weight, std=0.1, generator=torch.Generator().manual_seed(1))
        teacher = load_teacher(context, state_tensors(network), {"mean": 0.0, "deviation": 1.0})
        return teacher.outputs(states)

    states = torch.randint(0, 256, (64, *CONTEXT.observation.shape), dtype=torch.uint8)
    exact, rounded = outputs(None), outputs(torch.bfloat16)
    assert not torch.equal(exact, rounded)
    assert (rounded - exact).square().mean() < 1e-3 * exact.square().mean()
    assert torch.equal(outputs(torch.bfloat16, residual=False), outputs(None, residual=False))


def test_a_teacher_from_elsewhere_is_one_registered_function(monkeypatch):
    monkeypatch.setattr(TEACHERS, "_things", dict(TEACHERS._things))
    TEACHERS["elsewhere"] = lambda context, tensors, document: Elsewhere()
    assert isinstance(load_teacher(CONTEXT, {}, {"source": "elsewhere"}), Elsewhere)
    with pytest.raises(UserError, match="teacher"):
        load_teacher(CONTEXT, {}, {"source": "nowhere"})


def test_a_teacher_from_elsewhere_is_distilled():
    memory = LongTermMemory(state_tensors(CONTEXT.q_network()), ("catch",), {})
    agent = consolidation(Elsewhere(), Policy()).run(memory).memory.agent
    assert any(not torch.equal(agent[name], tensor) for name, tensor in memory.agent.items())


def test_logits_are_not_distilled_as_q_values():
    memory = LongTermMemory(state_tensors(CONTEXT.q_network()), ("catch",), {})
    with pytest.raises(UserError, match="a teacher of logits cannot be distilled by QValues"):
        consolidation(Elsewhere(), QValues()).run(memory)


def test_the_first_long_term_agent_learns_from_a_teacher_with_another_network():
    """A fresh network that prefers the teacher's action more than before."""
    done = consolidation(Elsewhere(), Policy()).run(None)
    before, after = CONTEXT.q_network(), CONTEXT.q_network(done.memory.agent)
    states = torch.randint(0, 256, (50, *CONTEXT.observation.shape), dtype=torch.uint8)
    share = [network(states).softmax(dim=1)[:, 2].mean().item() for network in (before, after)]
    assert share[1] > share[0]
    assert done.memory.tasks == tuple(task.name for task in TASKS)
    assert done.best is not None
