"""Knowledge: which outputs of a teacher the long-term agent learns and retains.

Each kind is a pair of losses: one for distilling the new task, one for retaining the earlier ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from reaper.equations import distill_loss, distill_loss_policy, pr_loss, pr_loss_policy, standardise
from reaper.errors import UserError
from reaper.learning.teachers import OutputKind, Teacher


class Knowledge(ABC):
    """Compares the student's outputs (N, num_actions) with targets; every loss is one number per item (N,).

    Targets of a new task may have fewer columns: one for each of the task's own actions, which are the first.
    """

    kinds: tuple[OutputKind, ...] = ("values",)  # the outputs of teachers that it can be distilled from
    output = "linear"  # the long-term agent's output layer: linear, or softmax

    def check(self, teacher: Teacher) -> None:
        if teacher.kind not in self.kinds:
            raise UserError(f"a teacher of {teacher.kind} cannot be distilled by {type(self).__name__}")

    @abstractmethod
    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        """The loss of the new task; mean and std are those of the teacher's outputs."""

    @abstractmethod
    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """The loss of earlier tasks, against the outputs of the previous long-term agent."""

    def adopt(self, weights: dict[str, torch.Tensor], mean: float, std: float) -> dict[str, torch.Tensor]:
        """The weights of the first long-term agent: those of the first teacher. They may be rescaled, but the best
        action in every state must remain the teacher's: its evaluation is also that of this agent."""
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

    def adopt(self, weights: dict[str, torch.Tensor], mean: float, std: float) -> dict[str, torch.Tensor]:
        """Standardises the outputs exactly, by rescaling the last layer."""
        return weights | {
            "values.weight": weights["values.weight"] / std,
            "values.bias": (weights["values.bias"] - mean) / std,
        }


class Policy(Knowledge):
    """Only which action is best: cross-entropy on softmax outputs."""

    kinds = ("values", "logits")
    output = "softmax"

    def distill(self, student: torch.Tensor, targets: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        return distill_loss_policy(student, targets)

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        return pr_loss_policy(student, previous)


def _own_actions(student: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The outputs that there are targets for; not sliced in vain, which would cost a kernel in every backward pass."""
    num_actions = targets.shape[1]
    return student if student.shape[1] == num_actions else student[:, :num_actions]
