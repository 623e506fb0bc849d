"""The Q-learning equations against numbers worked out by hand."""

import torch

from reaper.equations import dqn_loss, dqn_target

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
