"""Distilling a new task into the long-term agent while it retains the earlier ones, as Q-values or as a policy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .registry import equation


@equation("repr-loss")
def repr_loss(distillation: Tensor, retention: Tensor, alpha: float | Tensor) -> Tensor:
    """repr-loss: mean over the batch of alpha * L_D + (1 - alpha) * L_PR.

    distillation (N,), retention (N,), alpha a number or 0-d tensor -> scalar.
    """
    return (alpha * distillation + (1 - alpha) * retention).mean()


@equation("distill-loss")
def distill_loss(student_q: Tensor, teacher_q: Tensor) -> Tensor:
    """distill-loss: L_D, the squared differences from the short-term agent's Q-values, summed over actions.

    student_q (N, A), teacher_q (N, A), both on states of the new task -> (N,).
    """
    return _summed_squared_error(student_q, teacher_q)


@equation("pr-loss")
def pr_loss(student_q: Tensor, previous_q: Tensor) -> Tensor:
    """pr-loss: L_PR, the squared differences from the previous long-term agent's Q-values, summed over actions.

    student_q (N, A), previous_q (N, A), both on pseudo-items -> (N,).
    """
    return _summed_squared_error(student_q, previous_q)


@equation("distill-loss-policy")
def distill_loss_policy(student_logits: Tensor, teacher_q: Tensor) -> Tensor:
    """distill-loss-policy: cross-entropy of the student's softmax with the one-hot of the teacher's largest Q-value.

    student_logits (N, A), teacher_q (N, A) or only of the first actions, those that the task has -> (N,). In a tie, the
    action that argmax picks is the target.
    """
    best = teacher_q.argmax(dim=1, keepdim=True)
    one_hot = torch.zeros_like(student_logits).scatter(1, best, 1.0)  # h(q)
    return _cross_entropy(student_logits, one_hot)


@equation("pr-loss-policy")
def pr_loss_policy(student_logits: Tensor, previous_logits: Tensor) -> Tensor:
    """pr-loss-policy: cross-entropy of the student's softmax with the previous long-term agent's softmax.

    student_logits (N, A), previous_logits (N, A) -> (N,). Its minimum is the previous policy's entropy, not zero.
    """
    return _cross_entropy(student_logits, previous_logits.softmax(dim=1))


def soft_policy(q_values: Tensor, temperature: float | Tensor) -> Tensor:
    """softmax(q / temperature): a policy that is the surer of an action, the larger its advantage (Rusu et al. 2015).

    q_values (N, A) -> probabilities (N, A).
    """
    return (q_values / temperature).softmax(dim=1)


def soft_policy_loss(student_logits: Tensor, probabilities: Tensor) -> Tensor:
    """Cross-entropy of the student's softmax with a policy; actions beyond that policy's get a probability of zero.

    student_logits (N, A), probabilities (N, A) or only of the first actions, those that the task has -> (N,).
    """
    lacking = student_logits.shape[1] - probabilities.shape[1]
    return _cross_entropy(student_logits, F.pad(probabilities, (0, lacking)) if lacking else probabilities)


def standardise(q_values: Tensor, mean: float | Tensor, std: float | Tensor) -> Tensor:
    """(q - mean) / std with one mean and one standard deviation per task (text of append-extend; no label).

    q_values (N, A), mean and std numbers or 0-d tensors -> (N, A).
    """
    return (q_values - mean) / std


def advantages(q_values: Tensor) -> Tensor:
    """q - mean over actions: the part of Q-values that differs between actions, all that a greedy policy depends on.

    q_values (N, A) -> (N, A).
    """
    return q_values - q_values.mean(dim=1, keepdim=True)


def _summed_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(dim=1)


def _cross_entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    return F.cross_entropy(logits, probabilities, reduction="none")
