"""Knowledge: what of a teacher the long-term agent takes over and keeps.

Each kind is a pair of losses: how the new task is taught, and how earlier answers are retained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from reaper.equations import distill_loss, distill_loss_policy, pr_loss, pr_loss_policy, standardise


class Knowledge(ABC):
    """Compares the student's outputs (N, actions) with what it should know; every loss is one number an item (N,)."""

    @abstractmethod
    def teach(self, student: torch.Tensor, teacher: torch.Tensor, mean: float, deviation: float) -> torch.Tensor:
        """The loss of the new task; mean and deviation are those of the teacher's Q-values."""

    @abstractmethod
    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """The loss of earlier tasks: answering as the previous long-term agent did."""

    def adopt(self, teacher: dict[str, torch.Tensor], mean: float, deviation: float) -> dict[str, torch.Tensor]:
        """The first long-term agent, made from the first teacher's weights: a copy of them."""
        return teacher


class QValues(Knowledge):
    """All Q-values as they are."""

    def teach(self, student: torch.Tensor, teacher: torch.Tensor, mean: float, deviation: float) -> torch.Tensor:
        return distill_loss(student, teacher)

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        return pr_loss(student, previous)


class StandardisedQValues(QValues):
    """Q-values with one mean and one deviation a task, so that no task counts for more because it scores higher."""

    def teach(self, student: torch.Tensor, teacher: torch.Tensor, mean: float, deviation: float) -> torch.Tensor:
        return distill_loss(student, standardise(teacher, mean, deviation))

    def adopt(self, teacher: dict[str, torch.Tensor], mean: float, deviation: float) -> dict[str, torch.Tensor]:
        """Standardises the outputs exactly, by rescaling the last layer."""
        return teacher | {
            "values.weight": teacher["values.weight"] / deviation,
            "values.bias": (teacher["values.bias"] - mean) / deviation,
        }


class Policy(Knowledge):
    """Only which action is best: cross-entropy on softmax outputs."""

    def teach(self, student: torch.Tensor, teacher: torch.Tensor, mean: float, deviation: float) -> torch.Tensor:
        return distill_loss_policy(student, teacher)

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        return pr_loss_policy(student, previous)
