"""Tasks with fewer actions than their sequence: the others are never chosen, and no target depends on them."""

import numpy as np
import pytest
import torch
from conftest import TINY, run_tiny

import reaper
from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE as SETTINGS
from reaper.context import Context
from reaper.equations import distill_loss
from reaper.errors import UserError
from reaper.learning.actor import Actor, new_actor
from reaper.learning.knowledge import Policy, QValues, StandardisedQValues
from reaper.learning.short_term import ShortTerm
from reaper.results.runs import read_results
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.arcade import Catch
from reaper.tasks.sequence import TASKS, find_sequence, register_task
from reaper.tasks.task import Task

LACKING = 100.0  # the value of actions that the task lacks: by far the best, if anybody asked


class TwoActions(Catch):
    """Catch with two of the six actions; any other is an error, as in most environments."""

    name, num_actions = "two-actions", 2

    def send(self, actions):
        assert actions.max() < 2, f"there is no action {actions.max()}"
        super().send(actions)


TASK = Task("two-actions", "Two actions", 2, lambda options: TwoActions(options.num_envs), TwoActions.observation)


@pytest.fixture(autouse=True)
def registered():
    register_task(TASK.name, TASK)
    yield
    del TASKS[TASK.name]


def new_context(**changes):
    overrides = {f"short-term.{name}": value for name, value in changes.items()}
    return Context(with_overrides(SETTINGS, {**TINY, **overrides}), 6, 0, ("short-term", TASK.name))


def prefer_lacking(network):
    with torch.no_grad():
        network.values.bias[2:] = LACKING
    return network


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_an_actor_never_takes_an_action_that_the_task_lacks(epsilon):
    context = new_context()
    actor, network, rng = (
        new_actor(context, context.open(TASK, 8)),
        prefer_lacking(context.q_network()),
        context.cpu_rng("a"),
    )
    actor.reset(0)
    for _ in range(20):
        actor.act(network, epsilon, rng)
        actor.observe()
    taken = np.stack(actor.action_log)
    assert taken.max() < 2
    assert epsilon == 0 or set(np.unique(taken)) == {0, 1}


def test_actions_of_an_older_checkpoint_are_replayed_as_they_were_taken():
    actor = Actor(TwoActions(4), frame_stack=2)
    actor.reset(0)
    for _ in range(3):
        actor.act(None, 1.0, torch.Generator().manual_seed(0))
        actor.observe()
    state = actor.state()
    # Until 0.3 any of the sequence's actions could be chosen, and those that the task lacks were its action 0.
    state["action_log"] = torch.where(state["action_log"] == 0, 5, state["action_log"])
    resumed = Actor(TwoActions(4), frame_stack=2)
    resumed.restore(state)
    assert torch.equal(resumed.states, actor.states)


@pytest.mark.parametrize("target", ["dqn", "double", "munchausen"])
def test_no_target_depends_on_actions_that_the_task_lacks(target):
    learner = ShortTerm(new_context(target=target), TASK)
    learner.experience.reset(0)
    for _ in range(14):
        learner.trainer.step()
    batch = learner.experience.replay.sample(64, torch.Generator().manual_seed(0), 0.97)
    before = learner.q_learning.targets(batch)
    for network in (learner.network, learner.q_learning.target):
        prefer_lacking(network)
    assert torch.equal(learner.q_learning.targets(batch), before)
    assert before.abs().max() < LACKING / 2
    learner.close()


def test_statistics_of_values_leave_lacking_actions_out():
    learner = ShortTerm(new_context(), TASK)
    prefer_lacking(learner.network)
    learner.best.load = lambda: None  # so that the preference stays
    trained = learner.learn()
    assert abs(trained.value_mean) < LACKING / 2
    assert trained.value_std < LACKING / 10


@pytest.mark.parametrize("knowledge", [QValues(), StandardisedQValues()])
def test_distilled_values_are_those_of_the_tasks_own_actions(knowledge):
    student, targets = torch.randn(3, 6), torch.randn(3, 2)
    expected = distill_loss(student[:, :2], targets)
    assert torch.equal(knowledge.distill(student, targets, 0.0, 1.0), expected)


def test_a_distilled_policy_gives_lacking_actions_no_probability():
    student, targets = torch.zeros(1, 6, requires_grad=True), torch.tensor([[0.5, 0.1]])
    Policy().distill(student, targets, 0.0, 1.0).sum().backward()
    assert student.grad is not None
    # A step of gradient descent raises the best of the two actions, and lowers all others alike.
    torch.testing.assert_close(student.grad, torch.tensor([[-5.0, 1, 1, 1, 1, 1]]) / 6)


def test_the_number_of_actions_is_part_of_a_stage_only_where_it_is_smaller():
    mixed = build_chain(CONDITIONS["RePR"], find_sequence("two-actions,dodge"), 0, SETTINGS)
    first, second = mixed.teachers
    assert (first.spec["num_actions"], first.spec["fewer_actions"]) == (6, {"two-actions": 2})
    assert "fewer_actions" not in second.spec
    alone = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge"), 0, SETTINGS)
    assert not any("fewer_actions" in stage.spec for stage in alone.stages)
    assert second.digest == alone.teachers[1].digest


def test_a_sequence_of_different_action_sets_is_learnt_and_predicted(tmp_path):
    store = run_tiny(tmp_path / "out", ["RePR"], "two-actions,dodge")  # TwoActions refuses every other action
    assert all(result.finished for result in read_results(store))
    agent = reaper.load(tmp_path / "out", condition="RePR")
    prefer_lacking(agent.network)
    states = np.zeros((500, *agent.observation.shape), np.uint8)
    assert agent.predict(states[0])[0] >= 2
    limited = agent.for_task("two-actions")
    assert limited.predict(states[0])[0] < 2
    assert limited.predict(states, deterministic=False)[0].max() < 2
    assert agent.for_task("dodge").predict(states[0])[0] >= 2
    assert sum(1 for _ in agent.play("two-actions")) == 200
    env = agent.make_env("two-actions")
    assert env.action_space.n == 2
    assert agent.for_task(env).num_actions == 2
    env.reset(seed=0)
    with pytest.raises(UserError, match=r"two-actions has 2 actions, so there is no action 3; .*for_task"):
        env.step(3)
