"""Deep Q-learning: the loss of the short-term agent, and of the single agent of the `PR` condition.

The paper's target and loss come first. The others are published improvements that presets may choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .registry import equation


@equation("dqn-target")
def dqn_target(rewards: Tensor, terminals: Tensor, next_q: Tensor, discount: float | Tensor) -> Tensor:
    """dqn-target: y = r at a terminal, else r + discount * max_a Q(s', a).

    rewards (N,), terminals (N,) bool, next_q (N, A) from the target network and without gradient -> (N,).
    The paper prints this equation below dqn-loss without a label; the name is ours.
    """
    return bootstrap(rewards, terminals, next_q.amax(dim=1), discount)


def bootstrap(rewards: Tensor, terminals: Tensor, next_values: Tensor, discount: float | Tensor) -> Tensor:
    """y = r at a terminal, else r + discount * V(s').

    rewards (N,), terminals (N,) bool, next_values (N,), discount a number or (N,) -> (N,). For quantiles: next_values
    (N, K), the others (N, 1) -> (N, K).
    """
    return rewards.where(terminals.bool(), rewards + discount * next_values)


@equation("dqn-loss")
def dqn_loss(q_values: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
    """dqn-loss: mean over the batch of (y - Q(s, a))^2.

    q_values (N, A), actions (N,) int64, targets (N,) -> scalar.
    """
    return (targets - _of_actions(q_values, actions)).square().mean()


def huber_loss(q_values: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
    """Like dqn-loss, but linear in errors above one: half the square of smaller ones (Mnih et al. 2015).

    q_values (N, A), actions (N,) int64, targets (N,) -> scalar.
    """
    return F.smooth_l1_loss(_of_actions(q_values, actions), targets)


class NStep(NamedTuple):
    """What follows a state within n steps."""

    rewards: Tensor  # (N,) float32: the discounted sum
    terminals: Tensor  # (N,) bool: whether a terminal ended it
    steps: Tensor  # (N,) int64: how many rewards were summed; the state after so many steps is bootstrapped from


def n_step_rewards(
    rewards: Sequence[Tensor], terminals: Sequence[Tensor], truncated: Sequence[Tensor], discount: float
) -> NStep:
    """r_1 + discount * r_2 + ... + discount^(k-1) * r_k, where k is n, or fewer where the episode ends before.

    One tensor (N,) for each of the n steps. A truncated step is not summed, since its next state is unknown; the first
    step must not be truncated.
    """
    total, steps = torch.zeros_like(rewards[0]), torch.zeros_like(terminals[0], dtype=torch.int64)
    goes_on, terminal = torch.ones_like(terminals[0]), torch.zeros_like(terminals[0])
    for step, reward in enumerate(rewards):
        counts = goes_on & ~truncated[step]
        total = total + discount**step * reward * counts
        steps = steps + counts
        terminal = terminal | (counts & terminals[step])
        goes_on = counts & ~terminals[step]
    return NStep(total, terminal, steps)


def double_q_values(next_q: Tensor, online_q: Tensor) -> Tensor:
    """V(s') of double Q-learning: the target network's value of the action that the network in training prefers.

    next_q (N, A) from the target network, online_q (N, A) from the network in training -> (N,).
    """
    return _of_actions(next_q, online_q.argmax(dim=1))


def soft_values(next_q: Tensor, temperature: float) -> Tensor:
    """V(s') of Munchausen DQN: the expected value under the softmax policy plus its entropy, times the temperature.

    next_q (N, A) from the target network -> (N,). Close to the maximum at a low temperature.
    """
    return temperature * torch.logsumexp(next_q / temperature, dim=1)


def soft_quantiles(next_quantiles: Tensor, temperature: float) -> Tensor:
    """Quantiles of the soft value: each averaged over the softmax policy of the mean values, plus its entropy times the
    temperature. Their mean is `soft_values` of the mean values.

    next_quantiles (N, A, K) from the target network -> (N, K).
    """
    log_policy = torch.log_softmax(next_quantiles.mean(dim=2) / temperature, dim=1).unsqueeze(2)  # (N, A, 1)
    return (log_policy.exp() * (next_quantiles - temperature * log_policy)).sum(dim=1)


def quantile_loss(quantiles: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
    """Huber's quantile regression loss (Dabney et al. 2018): sum over i, mean over j and over the batch of
    |tau_i - 1[u_ij < 0]| * huber(u_ij), where u_ij = y_j - theta_i and tau_i = (i + 1/2) / K.

    quantiles (N, A, K), actions (N,) int64, targets (N, K) -> scalar.
    """
    chosen = quantiles_of_actions(quantiles, actions).unsqueeze(2)  # (N, K, 1)
    targets = targets.unsqueeze(1).expand(-1, chosen.shape[1], -1)  # (N, K, K)
    levels = (torch.arange(chosen.shape[1], device=chosen.device) + 0.5) / chosen.shape[1]
    weights = (levels.view(1, -1, 1) - (targets < chosen).to(chosen.dtype)).abs()
    errors = F.smooth_l1_loss(chosen.expand_as(targets), targets, reduction="none")
    return (weights * errors).mean(dim=2).sum(dim=1).mean()


def munchausen_bonus(q_values: Tensor, actions: Tensor, temperature: float, scale: float, minimum: float) -> Tensor:
    """What Munchausen DQN adds to the reward: the scaled log-probability of the action under the softmax policy
    (Vieillard et al. 2020).

    q_values (N, A) of the state, from the target network, actions (N,) int64, minimum below zero -> (N,).
    """
    log_policy = _of_actions(torch.log_softmax(q_values / temperature, dim=1), actions)
    return scale * (temperature * log_policy).clamp(min=minimum)


def quantiles_of_actions(quantiles: Tensor, actions: Tensor) -> Tensor:
    """(N, A, K), actions (N,) int64 -> (N, K)."""
    return quantiles.gather(1, actions.view(-1, 1, 1).expand(-1, 1, quantiles.shape[2])).squeeze(1)


def _of_actions(q_values: Tensor, actions: Tensor) -> Tensor:
    return q_values.gather(1, actions.unsqueeze(1)).squeeze(1)  # (N, A) -> (N,)
