"""The Q-learning equations against numbers worked out by hand."""

import math

import torch

from reaper.equations import (
    bootstrap,
    double_q_values,
    dqn_loss,
    dqn_target,
    huber_loss,
    munchausen_bonus,
    n_step_rewards,
    quantile_loss,
    soft_quantiles,
    soft_values,
)

torch.set_num_threads(1)


def test_dqn_target_bootstraps_unless_terminal() -> None:
    rewards = torch.tensor([1.0, -1.0, 0.5])
    terminals = torch.tensor([False, True, False])
    next_q = torch.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 0.0], [-4.0, -2.0, -3.0]])
    # 1 + 0.5 * 3 = 2.5      terminal: -1      0.5 + 0.5 * (-2) = -0.5
    torch.testing.assert_close(dqn_target(rewards, terminals, next_q, 0.5), torch.tensor([2.5, -1.0, -0.5]))


def test_dqn_target_ignores_the_state_after_a_terminal() -> None:
    target = dqn_target(torch.tensor([1.0]), torch.tensor([True]), torch.tensor([[float("inf"), 0.0]]), 0.99)
    assert target.tolist() == [1.0]


def test_dqn_loss_is_the_mean_squared_error_of_the_actions_taken() -> None:
    q_values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = dqn_loss(q_values, torch.tensor([1, 0]), torch.tensor([5.0, 1.0]))
    # ((5 - 2)^2 + (1 - 3)^2) / 2 = (9 + 4) / 2
    assert loss.item() == 6.5
    loss.backward()
    # 2 (Q - y) / N: 2 * (2 - 5) / 2 = -3 and 2 * (3 - 1) / 2 = 2; nothing for actions not taken
    assert q_values.grad is not None
    assert q_values.grad.tolist() == [[0.0, -3.0], [2.0, 0.0]]


def test_bootstrap_takes_a_discount_for_each_item() -> None:
    rewards, terminals = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([False, False, True])
    targets = bootstrap(rewards, terminals, torch.tensor([4.0, 4.0, float("inf")]), torch.tensor([0.5, 0.25, 0.5]))
    assert targets.tolist() == [3.0, 2.0, 1.0]


def test_huber_loss_is_linear_above_an_error_of_one() -> None:
    q_values = torch.tensor([[0.0, 9.0], [9.0, 0.0]])
    loss = huber_loss(q_values, torch.tensor([0, 1]), torch.tensor([0.5, -3.0]))
    torch.testing.assert_close(loss, torch.tensor((0.5 * 0.25 + 2.5) / 2))


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def test_n_step_rewards_stop_at_a_terminal_and_before_a_truncated_step() -> None:
    """Four items: nothing ends; a terminal at the first and at the second step; truncated at the second step."""
    rewards = [torch.full((4,), value) for value in (1.0, 10.0, 100.0)]
    terminals = [flags(0, 1, 0, 0), flags(0, 0, 1, 1), flags(0, 0, 0, 0)]
    truncated = [flags(0, 0, 0, 0), flags(0, 0, 0, 1), flags(0, 0, 0, 0)]
    ahead = n_step_rewards(rewards, terminals, truncated, 0.5)
    assert ahead.rewards.tolist() == [31.0, 1.0, 6.0, 1.0]
    assert ahead.terminals.tolist() == [False, True, True, False]
    assert ahead.steps.tolist() == [3, 1, 2, 1]


def test_double_q_learning_values_the_action_that_the_network_in_training_prefers() -> None:
    target, online = torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[0.0, 1.0, 2.0]])
    assert double_q_values(target, online).tolist() == [3.0]


def test_soft_values_are_the_entropy_regularised_expectation() -> None:
    q, temperature = torch.tensor([[1.0, 2.0, 0.5]]), 0.7
    policy = (q / temperature).softmax(dim=1)
    expected = (policy * (q - temperature * policy.log())).sum(dim=1)
    torch.testing.assert_close(soft_values(q, temperature), expected)
    torch.testing.assert_close(soft_values(q, 0.01), torch.tensor([2.0]))


def test_the_munchausen_bonus_is_a_clipped_log_probability() -> None:
    q = torch.tensor([[1.0, 1.0], [0.0, 100.0]])
    bonus = munchausen_bonus(q, torch.tensor([0, 0]), temperature=0.5, scale=0.9, minimum=-1.0)
    torch.testing.assert_close(bonus, torch.tensor([0.9 * 0.5 * math.log(0.5), -0.9]))


def test_quantiles_of_soft_values_have_the_soft_value_as_their_mean() -> None:
    quantiles, temperature = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(0)), 0.4
    found = soft_quantiles(quantiles, temperature)
    torch.testing.assert_close(found.mean(dim=1), soft_values(quantiles.mean(dim=2), temperature))


def test_the_quantile_loss_weights_errors_by_their_sign() -> None:
    """One item, two quantiles (levels 1/4 and 3/4) at 0 and 1, two targets at -0.5 and 3."""
    quantiles = torch.tensor([[[9.0, 9.0], [0.0, 1.0]]])
    loss = quantile_loss(quantiles, torch.tensor([1]), torch.tensor([[-0.5, 3.0]]))
    first = (0.75 * 0.125 + 0.25 * 2.5) / 2  # below and above the first quantile
    second = (0.25 * 1.0 + 0.75 * 1.5) / 2
    torch.testing.assert_close(loss, torch.tensor(first + second))


def test_the_quantile_loss_is_smallest_at_the_quantiles() -> None:
    """Gradient descent on it finds quantiles of a distribution of targets: of 0, 1, ... 99."""
    quantiles = torch.zeros(1, 1, 2, requires_grad=True)
    targets = torch.arange(100.0)[None]
    for _ in range(2000):
        (gradient,) = torch.autograd.grad(quantile_loss(quantiles, torch.tensor([0]), targets), quantiles)
        quantiles.data -= gradient
    torch.testing.assert_close(quantiles.detach().flatten(), torch.tensor([24.5, 74.5]), atol=1.0, rtol=0)
