"""Knowledge: which outputs of a teacher the long-term agent learns and retains.

Each kind is a pair of losses: one for distilling the new task, one for retaining the earlier ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from reaper.equations import (
    advantages,
    distill_loss,
    distill_loss_policy,
    pr_loss,
    pr_loss_policy,
    soft_policy,
    soft_policy_loss,
    standardise,
)
from reaper.errors import UserError
from reaper.learning.teachers import OutputKind, Teacher

IMPROBABLE = -10.0  # the logit of an action that a task lacks; advantages have a mean of zero, so the best is above it


class Knowledge(ABC):
    """Compares the student's outputs (N, num_actions) with targets; every loss is one number per item (N,).

    Targets of a new task may have fewer columns: one for each of the task's own actions, which are the first.
    """

    kinds: tuple[OutputKind, ...] = ("values",)  # the outputs of teachers that it can be distilled from
    output = "linear"  # the long-term agent's output layer: linear, or softmax

    def check(self, teacher: Teacher) -> None:
        if teacher.kind not in self.kinds:
            raise UserError(f"a teacher of {teacher.kind} cannot be distilled by {type(self).__name__}")

    def deviation(self, teacher: Teacher) -> float:
        """The standard deviation that `distill` and `adopt` are given: of the teacher's outputs."""
        return teacher.value_std

    @abstractmethod
    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        """The loss of the new task; mean and std are those of the teacher's outputs."""

    @abstractmethod
    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """The loss of earlier tasks, against the outputs of the previous long-term agent."""

    def adopt(
        self, weights: dict[str, torch.Tensor], mean: float, std: float, num_actions: int
    ) -> dict[str, torch.Tensor]:
        """The weights of the first long-term agent: those of the first teacher. They may be rescaled, but the best
        of the task's actions, the first `num_actions`, must remain the teacher's in every state: its evaluation is also
        that of this agent."""
        return weights

    def in_teacher_units(self, weights: dict[str, torch.Tensor], std: float) -> dict[str, torch.Tensor]:
        """The inverse of `adopt`, as far as there is one: of an agent that has learnt only this task, a network whose
        outputs have the size of the teacher's, and from which `adopt` makes the same agent again."""
        return weights


class QValues(Knowledge):
    """All Q-values, unchanged."""

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return distill_loss(_own_actions(student, targets), targets)

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        return pr_loss(student, previous)


class StandardisedQValues(QValues):
    """Q-values with the same mean and standard deviation in every task, so that no task weighs more because its returns
    are larger."""

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return distill_loss(_own_actions(student, targets), standardise(targets, mean, std))

    def adopt(
        self, weights: dict[str, torch.Tensor], mean: float, std: float, num_actions: int
    ) -> dict[str, torch.Tensor]:
        """Standardises the outputs exactly, by rescaling the last layer."""
        return weights | {
            "values.weight": weights["values.weight"] / std,
            "values.bias": (weights["values.bias"] - mean) / std,
        }


class StandardisedAdvantages(QValues):
    """Q-values without what all actions of a state have in common, and with the same standard deviation in every task.

    Where a state's value is large and its actions differ little (100 and less than one in CartPole), an error that is
    small for the value makes another action the best one.
    """

    def deviation(self, teacher: Teacher) -> float:
        return teacher.advantage_std

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return distill_loss(_own_actions(student, targets), advantages(targets) / std)

    def adopt(
        self, weights: dict[str, torch.Tensor], mean: float, std: float, num_actions: int
    ) -> dict[str, torch.Tensor]:
        """Exactly, by changing the last layer; outputs for actions that the task lacks become zero."""

        def change(rows: torch.Tensor) -> torch.Tensor:
            return torch.cat([_centred(rows[:num_actions]) / std, torch.zeros_like(rows[num_actions:])])

        return weights | {name: change(weights[name]) for name in ("values.weight", "values.bias")}

    def in_teacher_units(self, weights: dict[str, torch.Tensor], std: float) -> dict[str, torch.Tensor]:
        return _scaled(weights, std)


class Policy(Knowledge):
    """Only which action is best: cross-entropy on softmax outputs."""

    kinds = ("values", "logits")
    output = "softmax"

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return distill_loss_policy(student, targets)

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        return pr_loss_policy(student, previous)


class SoftPolicy(Policy):
    """A softmax of the advantages, sharp but not one-hot: where a state's best action hardly matters, its probability
    is close to that of the others, and an error in it costs little.

    The temperature is in standard deviations of the task's advantages, so that it suits returns of any size.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def deviation(self, teacher: Teacher) -> float:
        return self.temperature * teacher.advantage_std

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return soft_policy_loss(student, soft_policy(targets, std))

    def adopt(
        self, weights: dict[str, torch.Tensor], mean: float, std: float, num_actions: int
    ) -> dict[str, torch.Tensor]:
        """Exactly, by changing the last layer; actions that the task lacks become improbable in every state."""
        weight, bias = weights["values.weight"], weights["values.bias"]
        own = {name: _centred(weights[name][:num_actions]) / std for name in ("values.weight", "values.bias")}
        lacking = [torch.zeros_like(weight[num_actions:]), torch.full_like(bias[num_actions:], IMPROBABLE)]
        return weights | {
            name: torch.cat([part, rest]) for (name, part), rest in zip(own.items(), lacking, strict=True)
        }

    def in_teacher_units(self, weights: dict[str, torch.Tensor], std: float) -> dict[str, torch.Tensor]:
        return _scaled(weights, std)


def _scaled(weights: dict[str, torch.Tensor], factor: float) -> dict[str, torch.Tensor]:
    """A network with outputs that are this many times as large."""
    return weights | {name: factor * weights[name] for name in ("values.weight", "values.bias")}


def _centred(rows: torch.Tensor) -> torch.Tensor:
    """The rows of a last layer whose outputs are advantages instead of values."""
    return rows - rows.mean(dim=0)


def _own_actions(student: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The outputs that there are targets for; not sliced in vain, which would cost a kernel in every backward pass."""
    num_actions = targets.shape[1]
    return student if student.shape[1] == num_actions else student[:, :num_actions]
