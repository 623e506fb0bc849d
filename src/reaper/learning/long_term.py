"""Algorithm 2 and what surrounds it: one task is consolidated into the long-term memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, Forward, split_batches
from reaper.context import Context, state_tensors
from reaper.generators import generator_for
from reaper.learning.best_weights import BestWeights
from reaper.learning.collection import collect_replay
from reaper.learning.evaluation.episodes import Row
from reaper.learning.knowledge import Knowledge
from reaper.learning.objectives import NewTask, Objective, TaskObjective
from reaper.learning.teachers import Teacher
from reaper.learning.trainer import Trainer
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Recall, Remembered, Retention
from reaper.state import Parts
from reaper.tasks.task import Task

STORED_STATES = 96  # generated ones, for the report


@dataclass
class Consolidated:
    """The next long-term memory, and what a report shows of how it was made."""

    memory: LongTermMemory
    rows: list[Row] = field(default_factory=list)  # of evaluations
    best: dict[str, Any] | None = None  # how the weights were chosen; None: nothing was trained
    generator_curve: list[dict[str, float]] = field(default_factory=list)
    states: dict[str, torch.Tensor] = field(default_factory=dict)  # generated states, for the report only


def in_long_term(context: Context) -> Context:
    """The context with the learning rate and the exploration of long-term training, where it has its own."""
    settings, own = context.settings, context.settings.long_term
    optimiser, training = settings.optimiser, settings.training
    if own.learning_rate > 0:
        optimiser = replace(optimiser, learning_rate=own.learning_rate)
    if own.final_epsilon >= 0:
        training = replace(training, final_epsilon=own.final_epsilon)
    if own.exploration_steps > 0:
        training = replace(training, exploration_steps=own.exploration_steps)
    return replace(context, settings=replace(settings, optimiser=optimiser, training=training))


class ConsolidationLoss:
    """Learning the new task and retaining the earlier ones, combined in every batch and every loss."""

    def __init__(self, objective: TaskObjective, recall: Recall) -> None:
        self.objective, self.recall = objective, recall
        self.parts = Parts(objective=objective.parts, recall=recall)
        self.uses_weights = objective.uses_weights

    def sample(self, updates: int) -> list[Batch]:
        """(batch of the new task, batch of the earlier tasks or ()) per update."""
        size = self.objective.batches.batch_size
        new, recalled = self.objective.batches.sample(updates), self.recall.sample(updates * size)
        return list(zip(new, split_batches(recalled, size) if recalled else [()] * updates, strict=True))

    def loss(self, forward: Forward, weights: list[torch.Tensor], new: Batch, old: Batch) -> torch.Tensor:
        states, *targets = new
        if not old:
            return self.recall.combine(self.objective.loss(forward(states), *targets), weights)
        old_states, *known = old
        outputs = forward(torch.cat([states, old_states]))  # one pass for both is faster than two
        new_task = self.objective.loss(outputs[: len(states)], *targets)
        return self.recall.combine(new_task, weights, outputs[len(states) :], *known)


@dataclass(frozen=True)
class Consolidation:
    """Everything that consolidating one task depends on."""

    context: Context
    tasks: tuple[Task, ...]  # learnt before, and last the new one
    objective: Objective
    retention: Retention
    knowledge: Knowledge
    teacher: Teacher | None
    generator: dict[str, torch.Tensor] | None = None  # the short-term one, where the objective needs it

    def run(self, memory: LongTermMemory | None) -> Consolidated:
        return self._first() if memory is None else self._learn(memory, self.context.q_network(memory.agent))

    def _first(self) -> Consolidated:
        """The first long-term agent is the first teacher, or learns from it if that has another network."""
        teacher = self.teacher
        assert teacher is not None
        weights = teacher.state()
        if weights is None:
            return self._learn(None, self.context.q_network())
        mean, std, num_actions = teacher.value_mean, self.knowledge.deviation(teacher), self.tasks[-1].num_actions
        agent = self.context.q_network(self.knowledge.adopt(weights, mean, std, num_actions))
        adopted = self.retention.adopt(self.generator) if self.generator is not None else None
        states: StateSource = Items(torch.empty(0))
        if adopted is None and self.retention.needs_states:
            states = collect_replay(self.context, teacher.policy, self.tasks[-1])
        remembered = adopted or self.retention.remember(self.context, None, agent, states)
        return self._result(agent, remembered, [])

    def _learn(self, memory: LongTermMemory | None, agent: QNetwork) -> Consolidated:
        objective, recall, trainer = self.begin(memory, agent)
        with trainer.evaluator as evaluator:
            if self.retention.trains_generator:
                evaluator.defer()
            agent_steps = self.context.settings.long_term.agent_steps
            trainer.run(f"consolidate {self.tasks[-1].title}", agent_steps, self.tasks)
            trainer.best.load()
            evaluator.run_deferred()
            recall.release()  # it may hold most of the device's memory, and training a generator needs as much
            adopted = self.retention.adopt(self.generator) if memory is None and self.generator is not None else None
            remembered = adopted or self.retention.remember(self.context, memory, agent, objective.new_states)
            objective.close()
            rows = evaluator.finish()
        return self._result(agent, remembered, rows, trainer.best.record())

    def begin(self, memory: LongTermMemory | None, agent: QNetwork) -> tuple[TaskObjective, Recall, Trainer]:
        """The objective of the new task, what is recalled, and the trainer of both."""
        context, student = self.context, FlatWeights(agent)
        new_task = NewTask(
            context=context,
            task=self.tasks[-1],
            student=student,
            knowledge=self.knowledge,
            teacher=self.teacher,
            generator=self.generator,
        )
        objective = self.objective.begin(new_task)
        recall = Recall()  # nothing, before the first task
        if memory is not None:
            recall = self.retention.recall(context, memory, self.knowledge, context.q_network(memory.agent))
        combined = ConsolidationLoss(objective, recall)
        trainer = Trainer(
            context,
            student,
            loss=combined.loss,
            batches=combined,
            best=BestWeights(
                student,
                context.settings.long_term.best_window,
                by_score=objective.best_by_score,
                min_episodes=context.settings.training.best_episodes,
                average=context.settings.training.weight_average,
            ),
            experience=objective.experience,
            after_steps=objective.after_steps,
            constants={"alpha": recall.alpha},
        )
        context.checkpointer.register("objective", objective.parts)
        context.checkpointer.register("recall", recall)
        return objective, recall, trainer

    def _result(
        self, agent: QNetwork, remembered: Remembered, rows: list[Row], best: dict[str, Any] | None = None
    ) -> Consolidated:
        memory = LongTermMemory(state_tensors(agent), tuple(task.name for task in self.tasks), remembered.retained)
        states = {}
        if generator := memory.part("generator"):
            fitted = generator_for(self.context.settings).load(self.context, generator)
            states["generated"] = fitted.sample(STORED_STATES, self.context.rng("pictures")).cpu()
        return Consolidated(memory, rows, best, remembered.curve, states)
