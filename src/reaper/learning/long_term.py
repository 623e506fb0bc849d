"""Algorithm 2 and what surrounds it: one task is consolidated into the long-term memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from reaper.compute.optimiser import FlatWeights, agent_optimiser
from reaper.compute.update import Batch, Forward, Update, split_batches
from reaper.context import Context, state_tensors
from reaper.generators import generator_for
from reaper.learning.evaluation.evaluator import Row
from reaper.learning.knowledge import Knowledge
from reaper.learning.objectives import Objective, TaskObjective
from reaper.learning.short_term import Gathering, Teacher
from reaper.learning.trainer import BestWeights, Trainer
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Recall, Remembered, Retention
from reaper.state import Parts
from reaper.tasks.task import Task


@dataclass
class Consolidated:
    """The next long-term memory, and what a report shows of how it came about."""

    memory: LongTermMemory
    rows: list[Row] = field(default_factory=list)
    generator_curve: list[dict[str, float]] = field(default_factory=list)
    pictures: dict[str, torch.Tensor] = field(default_factory=dict)  # generated states, for the report only


@dataclass(frozen=True)
class Both:
    """The lesson of the new task and what is recalled of the earlier ones, in every batch and every loss."""

    objective: TaskObjective
    recall: Recall

    def draw(self, updates: int) -> list[Batch]:
        size = self.objective.batches.batch_size
        new, drawn = self.objective.batches.sample(updates), self.recall.sample(updates * size)
        return list(zip(new, split_batches(drawn, size) if drawn else [()] * updates, strict=True))

    def loss(self, forward: Forward, weights: list[torch.Tensor], new: Batch, old: Batch) -> torch.Tensor:
        states, *told = new
        if not old:
            return self.recall.combine(self.objective.judge(forward(states), *told), weights)
        rehearsed, *known = old
        answers = forward(torch.cat([states, rehearsed]))  # one pass for both is quicker than two
        new_task = self.objective.judge(answers[: len(states)], *told)
        return self.recall.combine(new_task, weights, answers[len(states) :], *known)


@dataclass(frozen=True)
class Consolidation:
    """Everything that consolidating one task depends on."""

    context: Context
    tasks: tuple[Task, ...]  # learnt before, and last the new one
    objective: Objective
    retention: Retention
    knowledge: Knowledge
    teacher: Teacher | None
    generator: dict[str, torch.Tensor] | None = None  # the short-term one, where the teaching needs it

    def run(self, memory: LongTermMemory | None) -> Consolidated:
        return self._first() if memory is None else self._next(memory)

    def _first(self) -> Consolidated:
        """The first long-term agent is the first teacher."""
        teacher = self.teacher
        assert teacher is not None
        weights = self.knowledge.adopt(teacher.weights, teacher.value_mean, teacher.value_deviation)
        agent = self.context.q_network(weights)
        adopted = self.retention.adopt(self.generator) if self.generator is not None else None
        states: StateSource = Items(torch.empty(0))
        if adopted is None and self.retention.needs_states:
            states = Gathering(self.context, self.context.q_network(teacher.weights), self.tasks[-1]).run()
        remembered = adopted or self.retention.remember(self.context, None, agent, states)
        return self._handed_on(agent, remembered, [])

    def _next(self, memory: LongTermMemory) -> Consolidated:
        agent = self.context.q_network(memory.agent)
        objective, recall, trainer = self.begin(memory, agent)
        with trainer.evaluator as evaluator:
            if self.retention.trains_generator:
                evaluator.hold()
            frames = self.context.settings.long_term.agent_steps
            trainer.run(f"consolidate {self.tasks[-1].title}", frames, self.tasks)
            trainer.best.put_back()
            evaluator.release()
            recall.release()  # it may be most of the memory there is, and the generator's training needs as much
            remembered = self.retention.remember(self.context, memory, agent, objective.new_states)
            objective.close()
            rows = evaluator.finish()
        return self._handed_on(agent, remembered, rows)

    def begin(self, memory: LongTermMemory, agent: QNetwork) -> tuple[TaskObjective, Recall, Trainer]:
        """The lesson of the new task, what is recalled, and the agent's practice of both."""
        context, settings, student = self.context, self.context.settings, FlatWeights(agent)
        objective = self.objective.begin(context, self.tasks[-1], student, self.knowledge, self.teacher, self.generator)
        recall = self.retention.recall(context, memory, self.knowledge, context.q_network(memory.agent))
        both = Both(objective, recall)
        optimiser, max_grad_norm = agent_optimiser(settings.optimiser, student), settings.optimiser.max_grad_norm
        trainer = Trainer(
            context,
            student,
            Update(
                student,
                optimiser,
                both.loss,
                max_grad_norm=max_grad_norm,
                compiles=context.compiles,
                compute_dtype=context.compute_dtype,
            ),
            BestWeights(student, settings.long_term.best_window, objective.best_by_score),
            both.draw,
            Parts(objective=objective.parts, recall=recall),
            objective.actor,
            objective.replay,
            objective.after_frames,
            {"alpha": recall.alpha},
        )
        context.checkpointer.register("objective", objective.parts)
        context.checkpointer.register("recall", recall)
        return objective, recall, trainer

    def _handed_on(self, agent: QNetwork, remembered: Remembered, rows: list[Row]) -> Consolidated:
        memory = LongTermMemory(state_tensors(agent), tuple(task.name for task in self.tasks), remembered.retained)
        pictures = {}
        if generator := memory.part("generator"):
            fitted = generator_for(self.context.settings).load(self.context, generator)
            pictures["generated"] = fitted.sample(96, self.context.rng("pictures")).cpu()
        return Consolidated(memory, rows, remembered.curve, pictures)
