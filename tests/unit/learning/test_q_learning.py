"""Q-learning: which equation each target and each loss is, with the networks it uses."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.learning.short_term import ShortTerm
from reaper.tasks.sequence import find_task

DISCOUNT = ARCADE.short_term.discount


def new_learner(**changes):
    overrides = {f"short-term.{name.replace('_', '-')}": value for name, value in changes.items()}
    context = Context(with_overrides(ARCADE, {**TINY, **overrides}), 6, 0, ("short-term", "catch"))
    return ShortTerm(context, find_task("catch"))


@pytest.fixture
def trained(request):
    """A learner after a few updates, so that the network in training differs from the target network."""
    learner = new_learner(**request.param)
    learner.experience.reset(0)
    for _ in range(14):
        learner.trainer.step()
    yield learner
    learner.close()


def sampled(learner):
    """A batch of transitions, and the Q-values of both networks for its next states."""
    q_learning = learner.q_learning
    batch = learner.experience.replay.sample(64, torch.Generator().manual_seed(0), DISCOUNT)
    with torch.no_grad():
        return batch, q_learning.target(batch.next_states), learner.network(batch.next_states)


@pytest.mark.parametrize("trained", [{"target": "dqn"}, {"target": "dqn", "n_step": 3}], indirect=True)
def test_the_papers_target_is_the_target_networks_largest_value(trained):
    batch, next_q, _ = sampled(trained)
    n_step = trained.context.settings.short_term.n_step
    expected = batch.rewards + (~batch.terminals) * DISCOUNT**n_step * next_q.max(dim=1).values
    torch.testing.assert_close(trained.q_learning.targets(batch), expected)


@pytest.mark.parametrize("trained", [{"target": "double"}], indirect=True)
def test_the_double_target_lets_the_network_in_training_choose(trained):
    batch, next_q, online_q = sampled(trained)
    assert (next_q.argmax(dim=1) != online_q.argmax(dim=1)).any()
    chosen = next_q[torch.arange(64), online_q.argmax(dim=1)]
    expected = batch.rewards + (~batch.terminals) * DISCOUNT * chosen
    torch.testing.assert_close(trained.q_learning.targets(batch), expected)
    assert trained.q_learning.uses_weights


@pytest.mark.parametrize("trained", [{"target": "munchausen", "munchausen_temperature": 0.5}], indirect=True)
def test_the_munchausen_target_rewards_likely_actions(trained):
    batch, next_q, _ = sampled(trained)
    with torch.no_grad():
        policy = (trained.q_learning.target(batch.states) / 0.5).softmax(dim=1)
    likely = policy[torch.arange(64), batch.actions].log()
    values = 0.5 * (next_q / 0.5).exp().sum(dim=1).log()
    expected = batch.rewards + 0.9 * (0.5 * likely).clamp(-1, 0) + (~batch.terminals) * DISCOUNT * values
    torch.testing.assert_close(trained.q_learning.targets(batch), expected)


def test_the_loss_is_the_one_that_the_settings_name():
    outputs, actions, targets = torch.tensor([[0.0, 1.0]]), torch.tensor([0]), torch.tensor([3.0])
    for name, expected in (("squared", 9.0), ("huber", 2.5)):
        learner = new_learner(loss=name)
        assert learner.q_learning.output_loss(outputs, actions, targets).item() == expected
        learner.close()


@pytest.mark.parametrize("target", ["double", "munchausen"])
def test_learning_with_another_target_is_repeatable(target):
    def learn():
        learner = new_learner(target=target, n_step=3, agent_steps=120)
        return learner.learn().weights

    first, second = learn(), learn()
    assert all(torch.equal(first[name], second[name]) for name in first)


# -- quantiles


@pytest.mark.parametrize("target", ["dqn", "double", "munchausen"])
def test_quantile_targets_have_the_target_of_the_means_as_their_mean(target):
    learner = new_learner(target=target, quantiles=8, munchausen_temperature=0.5)
    learner.experience.reset(0)
    for _ in range(14):
        learner.trainer.step()
    batch, _, _ = sampled(learner)
    means = new_learner(target=target, munchausen_temperature=0.5)
    means.network.load_state_dict(learner.network.averaged())
    means.q_learning.target.load_state_dict(learner.q_learning.target.averaged())
    with torch.no_grad():
        found = learner.q_learning.targets(batch)
        assert found.shape == (64, 8)
        assert found.std(dim=1).max() > 0
        torch.testing.assert_close(found.mean(dim=1), means.q_learning.targets(batch), atol=1e-5, rtol=1e-5)
    learner.close()
    means.close()


def test_an_agent_that_learnt_quantiles_is_stored_without_them():
    learner = new_learner(quantiles=8)
    trained = learner.learn()
    plain = learner.context.q_network(trained.weights)  # refuses weights of another network
    states = trained.states["real"]
    with torch.no_grad():
        torch.testing.assert_close(plain(states), learner.network(states), atol=1e-6, rtol=1e-5)


def test_actions_are_those_of_the_largest_mean():
    learner = new_learner(quantiles=8)
    with torch.no_grad():
        head = learner.network.values
        head.weight.zero_()
        head.bias.copy_(torch.arange(6.0).repeat_interleave(8) + torch.tensor([-9.0, 9.0] * 24))
        states = torch.zeros(3, *learner.context.observation.shape, dtype=torch.uint8)
        assert learner.network(states).tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 3
    learner.close()
