"""Teaching: how a new task gets into the long-term agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from reaper.compute.compilation import answer
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batches
from reaper.context import Context
from reaper.equations import dqn_loss
from reaper.learning.actor import Player
from reaper.learning.knowledge import Knowledge
from reaper.learning.short_term import QLearning, Teacher, new_player, new_replay
from reaper.memory.items import Items, StateSource
from reaper.memory.replay import Replay
from reaper.networks.q_network import QNetwork
from reaper.randomness import Stream
from reaper.storage.checkpoints import Parts
from reaper.tasks.task import Task

Judge = Callable[..., torch.Tensor]  # (the student's outputs, the rest of the batch) -> a loss an item, or their mean


@dataclass
class Lesson:
    """One task being taught: its batches (states first), how answers to them are judged, and where its states come
    from."""

    batches: Batches
    judge: Judge
    new_states: StateSource
    player: Player | None = None
    replay: Replay | None = None
    after_frames: Callable[[int, int], None] = lambda before, now: None
    best_by_score: bool = False  # else by the lowest loss
    parts: Parts = field(default_factory=Parts)  # what a checkpoint holds of it, beside player and replay

    def close(self) -> None:
        if self.player:
            self.player.task.close()


class Teaching(ABC):
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
    ) -> Lesson: ...


def _network(weights: FlatWeights) -> QNetwork:
    assert isinstance(weights.network, QNetwork)
    return weights.network


def _judged_by(teacher: Teacher, knowledge: Knowledge) -> Judge:
    mean, deviation = teacher.value_mean, teacher.value_deviation
    return lambda outputs, answers: knowledge.teach(outputs, answers, mean, deviation)


@dataclass(frozen=True)
class Distil(Teaching):
    """The student plays the new task and learns its teacher's answers to what it sees."""

    def begin(self, context, task, student, knowledge, teacher, generator) -> Lesson:  # noqa: ANN001
        assert teacher is not None
        master = context.q_network(teacher.weights)
        replay, answer_of = new_replay(context), context.faster(answer)

        @torch.no_grad()
        def draw(count: int, randomness: Stream) -> tuple[torch.Tensor, ...]:
            states = replay.sample_states(count, randomness)
            return states, answer_of(master, states)

        batches = Batches(draw, context.settings.play.batch_size, context.stream("batches"))
        games = context.open(task, context.settings.play.games)
        player, parts = new_player(context, games), Parts(batches=batches)
        return Lesson(batches, _judged_by(teacher, knowledge), replay, player, replay, parts=parts)


@dataclass(frozen=True)
class DistilDreams(Teaching):
    """The student never plays: it learns its teacher's answers to what a short-term generator dreams of the task."""

    needs_generator = True

    def begin(self, context, task, student, knowledge, teacher, generator) -> Lesson:  # noqa: ANN001
        assert teacher is not None
        assert generator is not None
        count = context.settings.generator.pseudo_items
        dreams = Items(context.generator(generator).dream(count, context.stream("short-term dreams")))
        items = dreams.answered_by(context.q_network(teacher.weights))
        batches = Batches(items.sample, context.settings.play.batch_size, context.stream("batches"))
        return Lesson(batches, _judged_by(teacher, knowledge), items, parts=Parts(batches=batches))


@dataclass(frozen=True)
class Reinforce(Teaching):
    """No second memory: the long-term agent learns the new task itself, by deep Q-learning."""

    needs_teacher = False

    def begin(self, context, task, student, knowledge, teacher, generator) -> Lesson:  # noqa: ANN001
        replay = new_replay(context)
        q_learning = QLearning(context, _network(student), student, replay)
        player = new_player(context, context.open(task, context.settings.play.games))
        return Lesson(
            q_learning.batches,
            dqn_loss,
            replay,
            player,
            replay,
            q_learning.after_frames,
            best_by_score=True,
            parts=q_learning.parts,
        )


@dataclass(frozen=True)
class Alone(Teaching):
    """No long-term agent at all: one teacher a task, the reference every score is divided by."""

    consolidates = False

    def begin(self, context, task, student, knowledge, teacher, generator) -> Lesson:  # noqa: ANN001
        raise TypeError("a condition without a long-term agent teaches nothing")
