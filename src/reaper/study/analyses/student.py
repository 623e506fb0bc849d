"""A student taught from nothing but items: how good the items are shows in how well it comes to play (Table scratch).

The teacher answers every item once; a fresh DQN learns those answers by distillation and never plays while it learns.
Real and dreamt items are equally many, and the student of either starts from the same weights.
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
    """States of each task in equal shares, from what its player's training would have left in the replay; on the CPU.

    They are gathered again when a student is taken up again: that is quick, and a checkpoint of all of them is not.
    """
    share = context.settings.generator.pseudo_items // len(tasks)
    found = []
    for task, actor in zip(tasks, actors, strict=True):
        apart = replace(
            context,
            names=(*context.names, "real items", task.name),
            checkpointer=Checkpointer(stop=context.checkpointer.stop),  # saves nothing, but listens for stops
        )
        found.append(Gathering(apart, actor, task).run().distinct_states(share, apart.rng("items")).cpu())
    return torch.cat(found)


def generated_states(context: Context, generator: FittedGenerator) -> torch.Tensor:
    """As many states as a generator is otherwise asked for."""
    return generator.sample(context.settings.generator.pseudo_items, context.rng("dreams"))


class Student:
    """A fresh DQN and the answered items it is taught from, for as long as a long-term agent is taught a task."""

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
        self.drawing = Parts(batches=batches)
        self.trainer = Trainer(context, weights, update, self.best, batches.sample, self.drawing)

    def loss(self, forward: Forward, weights: list[torch.Tensor], states: torch.Tensor, told: torch.Tensor) -> Any:
        return distill_loss(forward(states), told).mean()

    def learn(self) -> list[Row]:
        """Trains to the end; the network then has the weights of the best window, and the rows are its tests."""
        context, titles = self.context, " and ".join(task.title for task in self.tasks)
        context.checkpointer.register("drawing", self.drawing)
        with self.trainer.evaluator as evaluator:
            self.trainer.run(f"teach {titles}", context.settings.long_term.agent_steps, self.tasks)
            self.best.put_back()
            return evaluator.finish()
