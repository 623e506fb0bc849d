"""A student trained on items alone: its scores show how good the items are (Table scratch).

The teacher's outputs for every item are computed once. A fresh DQN learns them by distillation, without any experience
of its own. There are as many real as generated items, and both kinds of students start from the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from reaper.compute.optimiser import FlatWeights, agent_optimiser
from reaper.compute.update import BatchSampler, Forward, Update
from reaper.context import Context
from reaper.equations import distill_loss
from reaper.generators import FittedGenerator
from reaper.learning.evaluation.evaluator import Row
from reaper.learning.short_term import Gathering
from reaper.learning.trainer import BestWeights, Trainer
from reaper.memory.items import Items
from reaper.networks.q_network import QNetwork
from reaper.state import Parts
from reaper.storage.checkpoints import Checkpointer
from reaper.tasks.task import Task


def real_states(context: Context, tasks: Sequence[Task], actors: Sequence[QNetwork]) -> torch.Tensor:
    """States of each task in equal shares, from the replay that its actor's training would have left; on the CPU.

    They are collected again when a student resumes: that is faster than saving all of them in a checkpoint.
    """
    share = context.settings.generator.pseudo_items // len(tasks)
    found = []
    for task, actor in zip(tasks, actors, strict=True):
        own = replace(
            context,
            names=(*context.names, "real items", task.name),
            checkpointer=Checkpointer(stop=context.checkpointer.stop),  # saves nothing, but can be stopped
        )
        found.append(Gathering(own, actor, task).run().distinct_states(share, own.rng("items")).cpu())
    return torch.cat(found)


def generated_states(context: Context, generator: FittedGenerator) -> torch.Tensor:
    """As many states as pseudo-rehearsal uses."""
    # "dreams" is the key of a random stream: renaming it would change every result.
    return generator.sample(context.settings.generator.pseudo_items, context.rng("dreams"))


class Student:
    """A fresh DQN and the items with targets it learns, for as many steps as consolidation takes per task."""

    def __init__(self, context: Context, tasks: Sequence[Task], items: Items) -> None:
        self.context, self.tasks, settings = context, tasks, context.settings
        self.network = context.q_network()
        weights = FlatWeights(self.network)
        optimiser = agent_optimiser(settings.optimiser, weights)
        update = Update(
            weights,
            optimiser,
            self.loss,
            max_grad_norm=settings.optimiser.max_grad_norm,
            compiles=context.compiles,
            compute_dtype=context.compute_dtype,
        )
        self.best = BestWeights(weights, settings.long_term.best_window, by_score=False)
        batches = BatchSampler(items.sample, settings.training.batch_size, context.rng("batches"))
        self.sampler = Parts(batches=batches)
        self.trainer = Trainer(context, weights, update, self.best, batches.sample, self.sampler)

    def loss(self, forward: Forward, weights: list[torch.Tensor], states: torch.Tensor, targets: torch.Tensor) -> Any:
        return distill_loss(forward(states), targets).mean()

    def learn(self) -> list[Row]:
        """Trains to the end and returns the evaluations; the network then has the weights of the best window."""
        context, titles = self.context, " and ".join(task.title for task in self.tasks)
        context.checkpointer.register("drawing", self.sampler)  # the name in checkpoints of earlier versions
        with self.trainer.evaluator as evaluator:
            self.trainer.run(f"train student of {titles}", context.settings.long_term.agent_steps, self.tasks)
            self.best.put_back()
            return evaluator.finish()
