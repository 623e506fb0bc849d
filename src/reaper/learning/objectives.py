"""Teaching: how a new task gets into the long-term agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from reaper.compute.compilation import forward
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import BatchSampler
from reaper.context import Context
from reaper.equations import dqn_loss
from reaper.generators import generator_for
from reaper.learning.actor import Actor
from reaper.learning.knowledge import Knowledge
from reaper.learning.short_term import QLearning, Teacher, new_actor, new_replay
from reaper.memory.items import Items, StateSource
from reaper.memory.replay import Replay
from reaper.networks.q_network import QNetwork
from reaper.randomness import RNG
from reaper.state import Parts
from reaper.tasks.task import Task

Judge = Callable[..., torch.Tensor]  # (the student's outputs, the rest of the batch) -> a loss an item, or their mean


@dataclass
class TaskObjective:
    """One task being taught: its batches (states first), how answers to them are judged, and where its states come
    from."""

    batches: BatchSampler
    judge: Judge
    new_states: StateSource
    actor: Actor | None = None
    replay: Replay | None = None
    after_frames: Callable[[int, int], None] = lambda before, now: None
    best_by_score: bool = False  # else by the lowest loss
    parts: Parts = field(default_factory=Parts)  # what a checkpoint holds of it, beside player and replay

    def close(self) -> None:
        if self.actor:
            self.actor.task.close()


class Objective(ABC):
    """A way to teach; says which stages it needs beside the long-term memory."""

    needs_teacher = True  # after the first task, which is always taken over from a teacher
    needs_generator = False  # one of the new task alone
    consolidates = True

    @abstractmethod
    def begin(
        self,
        context: Context,
        task: Task,
        student: FlatWeights,
        knowledge: Knowledge,
        teacher: Teacher | None,
        generator: dict[str, torch.Tensor] | None,
    ) -> TaskObjective: ...


def _network(weights: FlatWeights) -> QNetwork:
    assert isinstance(weights.network, QNetwork)
    return weights.network


def _judged_by(teacher: Teacher, knowledge: Knowledge) -> Judge:
    mean, deviation = teacher.value_mean, teacher.value_deviation
    return lambda outputs, answers: knowledge.teach(outputs, answers, mean, deviation)


@dataclass(frozen=True)
class Distillation(Objective):
    """The student plays the new task and learns its teacher's answers to what it sees."""

    def begin(self, context, task, student, knowledge, teacher, generator) -> TaskObjective:  # noqa: ANN001
        assert teacher is not None
        master = context.q_network(teacher.weights)
        replay, answer_of = new_replay(context), context.compile(forward)

        @torch.no_grad()
        def draw(count: int, rng: RNG) -> tuple[torch.Tensor, ...]:
            states = replay.sample_states(count, rng)
            return states, answer_of(master, states)

        batches = BatchSampler(draw, context.settings.training.batch_size, context.rng("batches"))
        games = context.open(task, context.settings.training.num_envs)
        actor, parts = new_actor(context, games), Parts(batches=batches)
        return TaskObjective(batches, _judged_by(teacher, knowledge), replay, actor, replay, parts=parts)


@dataclass(frozen=True)
class GeneratedDistillation(Objective):
    """The student never plays: it learns its teacher's answers to what a short-term generator dreams of the task."""

    needs_generator = True

    def begin(self, context, task, student, knowledge, teacher, generator) -> TaskObjective:  # noqa: ANN001
        assert teacher is not None
        assert generator is not None
        count = context.settings.generator.pseudo_items
        fitted = generator_for(context.settings).load(context, generator)
        # "short-term dreams" is the key of a random stream: renaming it would change every result.
        generated = Items(fitted.sample(count, context.rng("short-term dreams")))
        items = generated.with_targets(context.q_network(teacher.weights))
        batches = BatchSampler(items.sample, context.settings.training.batch_size, context.rng("batches"))
        return TaskObjective(batches, _judged_by(teacher, knowledge), items, parts=Parts(batches=batches))


@dataclass(frozen=True)
class QLearningObjective(Objective):
    """No second memory: the long-term agent learns the new task itself, by deep Q-learning."""

    needs_teacher = False

    def begin(self, context, task, student, knowledge, teacher, generator) -> TaskObjective:  # noqa: ANN001
        replay = new_replay(context)
        q_learning = QLearning(context, _network(student), student, replay)
        actor = new_actor(context, context.open(task, context.settings.training.num_envs))
        return TaskObjective(
            q_learning.batches,
            dqn_loss,
            replay,
            actor,
            replay,
            q_learning.after_frames,
            best_by_score=True,
            parts=q_learning.parts,
        )


@dataclass(frozen=True)
class SingleTask(Objective):
    """No long-term agent at all: one teacher a task, the reference every score is divided by."""

    consolidates = False

    def begin(self, context, task, student, knowledge, teacher, generator) -> TaskObjective:  # noqa: ANN001
        raise TypeError("a condition without a long-term agent teaches nothing")
