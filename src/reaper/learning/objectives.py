"""Objectives: how the long-term agent learns a new task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import BatchSampler
from reaper.context import Context
from reaper.generators import generator_for, pseudo_items
from reaper.learning.experience import Experience
from reaper.learning.knowledge import Knowledge
from reaper.learning.q_learning import QLearning
from reaper.learning.teachers import Teacher
from reaper.memory.items import Items, StateSource
from reaper.randomness import RNG
from reaper.state import Parts
from reaper.tasks.task import Task

OutputLoss = Callable[..., torch.Tensor]  # (student's outputs, rest of the batch) -> one loss per item, or their mean


@dataclass(frozen=True)
class NewTask:
    """What an objective is given: the task to learn, and whoever can help."""

    context: Context
    task: Task
    student: FlatWeights  # the long-term agent
    knowledge: Knowledge
    teacher: Teacher | None = None  # where the objective needs one
    generator: dict[str, torch.Tensor] | None = None  # of the new task alone, where the objective needs one


@dataclass
class TaskObjective:
    """One task being learnt: its batches (states first), the loss of outputs for them, and the task's states."""

    batches: BatchSampler
    loss: OutputLoss
    new_states: StateSource
    experience: Experience | None = None
    after_steps: Callable[[int, int], None] = lambda before, after: None
    best_by_score: bool = False  # else by the lowest loss
    uses_weights: bool = False  # whether batches depend on the weights in training
    parts: Parts = field(default_factory=Parts)  # what a checkpoint holds of it, apart from the experience

    def close(self) -> None:
        if self.experience:
            self.experience.close()


class Objective(ABC):
    """A way to learn a new task, and which earlier stages it needs besides the long-term memory."""

    needs_teacher = True  # after the first task, whose agent always is its teacher
    needs_generator = False  # one of the new task alone
    consolidates = True

    @abstractmethod
    def begin(self, new: NewTask) -> TaskObjective:
        """Prepares to learn a task."""


def _distillation_loss(teacher: Teacher, new: NewTask) -> OutputLoss:
    """Of the task's own actions: nobody has taught the teacher's outputs for others."""
    new.knowledge.check(teacher)
    mean, std, num_actions = teacher.value_mean, new.knowledge.deviation(teacher), new.task.num_actions
    return lambda outputs, targets: new.knowledge.distill(outputs, targets[:, :num_actions], mean, std)


@dataclass(frozen=True)
class Distillation(Objective):
    """The student acts in the new task and learns its teacher's outputs for the states it visits."""

    def begin(self, new: NewTask) -> TaskObjective:
        context, teacher = new.context, new.teacher
        assert teacher is not None
        loss, experience = _distillation_loss(teacher, new), Experience(context, new.task)

        def sample(count: int, rng: RNG) -> tuple[torch.Tensor, ...]:
            states = experience.replay.sample_states(count, rng)
            return states, teacher.outputs(states)

        batches = BatchSampler(sample, context.settings.training.batch_size, context.rng("batches"))
        return TaskObjective(batches, loss, experience.replay, experience, parts=Parts(batches=batches))


@dataclass(frozen=True)
class GeneratedDistillation(Objective):
    """The student never acts: it learns its teacher's outputs for states that a generator of the task generates."""

    needs_generator = True

    def begin(self, new: NewTask) -> TaskObjective:
        context, teacher = new.context, new.teacher
        assert teacher is not None
        assert new.generator is not None
        fitted = generator_for(context.settings).load(context, new.generator)
        # "short-term dreams" is the key of a random stream: renaming it would change every result.
        states = pseudo_items(context, fitted, context.rng("short-term dreams"))
        items = Items(states).with_targets(teacher.policy)
        batches = BatchSampler(items.sample, context.settings.training.batch_size, context.rng("batches"))
        return TaskObjective(batches, _distillation_loss(teacher, new), items, parts=Parts(batches=batches))


@dataclass(frozen=True)
class DirectQLearning(Objective):
    """Without a teacher: the long-term agent learns the new task itself, by deep Q-learning."""

    needs_teacher = False

    def begin(self, new: NewTask) -> TaskObjective:
        experience = Experience(new.context, new.task)
        q_learning = QLearning(new.context, new.student, experience.replay, new.task.num_actions)
        return TaskObjective(
            q_learning.batches,
            q_learning.output_loss,
            experience.replay,
            experience,
            q_learning.after_steps,
            best_by_score=True,
            uses_weights=q_learning.uses_weights,
            parts=q_learning.parts,
        )


@dataclass(frozen=True)
class SingleTask(Objective):
    """Without a long-term agent: one teacher per task, the reference that every score is divided by."""

    consolidates = False

    def begin(self, new: NewTask) -> TaskObjective:
        raise TypeError("a condition without a long-term agent has nothing to consolidate")
