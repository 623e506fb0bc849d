"""Deep Q-learning: the loss of the short-term agent, and of the single agent of the `PR` condition."""

from __future__ import annotations

from torch import Tensor

from .registry import equation


@equation("dqn-target")
def dqn_target(rewards: Tensor, terminals: Tensor, next_q: Tensor, discount: float | Tensor) -> Tensor:
    """dqn-target: y = r at a terminal, else r + discount * max_a Q(s', a).

    rewards (N,), terminals (N,) bool, next_q (N, A) from the target network and without gradient -> (N,).
    The paper prints this equation below dqn-loss without a label; the name is ours.
    """
    bootstrapped = rewards + discount * next_q.amax(dim=1)
    return rewards.where(terminals.bool(), bootstrapped)


@equation("dqn-loss")
def dqn_loss(q_values: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
    """dqn-loss: mean over the batch of (y - Q(s, a))^2.

    q_values (N, A), actions (N,) int64, targets (N,) -> scalar.
    """
    taken = q_values.gather(1, actions.unsqueeze(1)).squeeze(1)  # (N, A) -> (N,)
    return (targets - taken).square().mean()
