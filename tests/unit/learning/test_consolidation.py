"""Consolidation: batches of new and earlier tasks, their loss, and what each objective shows the student."""

from dataclasses import replace

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.knowledge import QValues, StandardisedQValues
from reaper.learning.long_term import Consolidation, ConsolidationLoss, in_long_term
from reaper.learning.objectives import Distillation, GeneratedDistillation, NewTask, TaskObjective
from reaper.learning.teachers import DQNTeacher
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.retention import NoRetention, PseudoRehearsal, Rehearsal
from reaper.retention.base import Recall
from reaper.retention.rehearsal import RecalledItems
from reaper.tasks.sequence import find_task

SETTINGS = with_overrides(ARCADE, {**TINY, "long-term.alpha": 0.25, "training.batch-size": 3})
CONTEXT = Context(SETTINGS, 6, 0, ("consolidate",))
CATCH, DODGE = find_task("catch"), find_task("dodge")


class Batches:
    """Batches of three states; the targets are their numbers."""

    batch_size = 3

    def sample(self, updates):
        return [(torch.full((3, 1), 10.0 + number), torch.full((3,), number)) for number in range(updates)]


def objective(loss):
    return TaskObjective(Batches(), loss, Items(torch.zeros(1)))  # pyright: ignore


def test_without_recalled_items_only_the_new_task_counts():
    combined = ConsolidationLoss(objective(lambda outputs, targets: outputs[:, 0] - targets), Recall())
    (first, nothing), (second, _) = combined.sample(2)
    assert nothing == ()
    assert combined.loss(lambda states: 2 * states, [], first, ()).item() == 20.0
    assert combined.loss(lambda states: 2 * states, [], second, ()).item() == 22.0 - 1.0


def test_recalled_items_join_every_batch_in_one_pass():
    """Half of the outputs are compared with the teacher's, the other half with the previous agent's."""
    items = Items(torch.full((5, 1), 4.0), torch.full((5, 1), 1.0))
    recall = RecalledItems(CONTEXT, items, QValues(), tasks_before=1)
    combined = ConsolidationLoss(objective(lambda outputs, targets: outputs[:, 0] - targets), recall)
    batches, passes = combined.sample(2), []

    def forward(states):
        passes.append(states[:, 0].tolist())
        return states + 0.5

    losses = [combined.loss(forward, [], *batch).item() for batch in batches]
    assert passes == [[10.0] * 3 + [4.0] * 3, [11.0] * 3 + [4.0] * 3]
    # The new task: 10.5 - 0 and 11.5 - 1. The earlier ones: (4.5 - 1)^2.
    assert losses == pytest.approx([0.25 * 10.5 + 0.75 * 12.25] * 2)


def new_task(teacher, **parts):
    from reaper.compute.optimiser import FlatWeights

    return NewTask(CONTEXT, CATCH, FlatWeights(CONTEXT.q_network()), StandardisedQValues(), teacher, **parts)


def test_the_student_learns_its_teachers_standardised_outputs_where_it_acts():
    teacher = DQNTeacher(CONTEXT, state_tensors(CONTEXT.q_network()), value_mean=2.0, value_std=4.0)
    begun = Distillation().begin(new_task(teacher))
    assert begun.best_by_score is False
    actor, replay = begun.experience.actor, begun.experience.replay
    actor.reset(0)
    for _ in range(20):
        actor.act(None, 1.0, torch.Generator().manual_seed(0))
        actor.write_outcome(actor.observe())
        replay.add(actor.transition())
    ((states, targets),) = begun.batches.sample(1)
    assert torch.equal(targets, teacher.outputs(states))
    # Outputs of zero, against (targets - 2) / 4.
    expected = ((targets - 2) / 4).square().sum(dim=1)
    torch.testing.assert_close(begun.loss(torch.zeros(3, 6), targets), expected)
    begun.close()


def test_a_generator_of_the_task_can_replace_its_environments():
    teacher = DQNTeacher(CONTEXT, state_tensors(CONTEXT.q_network()), 0.0, 1.0)
    generator = PseudoRehearsal().remember(CONTEXT, None, CONTEXT.q_network(), Items(torch.zeros(40, 2, 16, 16).byte()))
    tensors = LongTermMemory({}, ("catch",), generator.retained).part("generator")
    begun = GeneratedDistillation().begin(new_task(teacher, generator=tensors))
    assert begun.experience is None
    assert len(begun.new_states) == 60  # pseudo-items
    ((states, targets),) = begun.batches.sample(1)
    torch.testing.assert_close(targets, teacher.outputs(states))


def test_the_first_agent_is_the_teacher_and_its_states_are_remembered():
    network = CONTEXT.q_network()
    teacher = DQNTeacher(CONTEXT, state_tensors(network), 0.0, 1.0)
    result = Consolidation(CONTEXT, (CATCH,), Distillation(), Rehearsal(capacity=7), QValues(), teacher).run(None)
    assert result.memory.tasks == ("catch",)
    assert all(torch.equal(result.memory.agent[name], tensor) for name, tensor in state_tensors(network).items())
    assert result.memory.retained["items.0"].shape == (7, 2, 16, 16)
    assert (result.rows, result.states) == ([], {})


def test_a_second_task_changes_the_agent_and_is_added_to_the_memory():
    teacher = DQNTeacher(CONTEXT, state_tensors(CONTEXT.q_network()), 0.0, 1.0)
    before = LongTermMemory({name: t + 0.05 for name, t in teacher.state().items()}, ("catch",))
    result = Consolidation(CONTEXT, (CATCH, DODGE), Distillation(), NoRetention(), QValues(), teacher).run(before)
    assert result.memory.tasks == ("catch", "dodge")
    # Every 120 of 160 agent steps, and at the end, on both tasks.
    assert [(row["agent_steps"], row["task"]) for row in result.rows] == [
        (120, "catch"), (120, "dodge"), (160, "catch"), (160, "dodge"),
    ]  # fmt: skip
    states = torch.randint(0, 256, (50, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    targets = teacher.outputs(states)

    def error(weights):
        return (CONTEXT.q_network(weights)(states) - targets).square().mean().item()

    assert error(result.memory.agent) < 0.5 * error(before.agent)  # it comes closer to the teacher


def test_long_term_training_may_have_a_learning_rate_and_an_exploration_of_its_own():
    own = {"long-term.learning-rate": 1e-4, "long-term.final-epsilon": 0.0, "long-term.exploration-steps": 70}
    changed = in_long_term(replace(CONTEXT, settings=with_overrides(SETTINGS, own))).settings
    assert (changed.optimiser.learning_rate, changed.training.final_epsilon) == (1e-4, 0.0)
    assert changed.training.exploration_steps == 70
    expected = {
        "optimiser.learning-rate": 1e-4,
        "training.final-epsilon": 0.0,
        "training.exploration-steps": 70,
        **own,
    }
    assert changed == with_overrides(SETTINGS, expected)  # and nothing else
    assert in_long_term(CONTEXT).settings == CONTEXT.settings
