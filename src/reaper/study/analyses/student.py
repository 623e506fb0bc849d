"""A student trained on items alone: its scores show how good the items are (Table scratch).

The teacher's outputs for every item are computed once. A fresh DQN learns them by distillation, without any experience
of its own. There are as many real as generated items, and both kinds of students start from the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, BatchSampler, Forward
from reaper.context import Context
from reaper.equations import distill_loss
from reaper.generators import FittedGenerator, pseudo_items
from reaper.learning.best_weights import BestWeights
from reaper.learning.collection import collect_replay
from reaper.learning.evaluation.episodes import Row
from reaper.learning.trainer import Trainer
from reaper.memory.items import Items
from reaper.state import Parts
from reaper.storage.checkpoints import Checkpointer
from reaper.tasks.task import Task


def real_states(context: Context, tasks: Sequence[Task], policies: Sequence[torch.nn.Module]) -> torch.Tensor:
    """States of each task in equal shares, from the replay that its policy's training would have left; on the CPU.

    They are collected again when a student resumes: that is faster than saving all of them in a checkpoint.
    """
    share = context.settings.generator.pseudo_items // len(tasks)
    found = []
    for task, policy in zip(tasks, policies, strict=True):
        own = replace(
            context,
            names=(*context.names, "real items", task.name),
            checkpointer=Checkpointer(stop=context.checkpointer.stop),  # saves nothing, but can be stopped
        )
        found.append(collect_replay(own, policy, task).distinct_states(share, own.rng("items")).cpu())
    return torch.cat(found)


def generated_states(context: Context, generator: FittedGenerator) -> torch.Tensor:
    """As many states as pseudo-rehearsal uses."""
    # "dreams" is the key of a random stream: renaming it would change every result.
    return pseudo_items(context, generator, context.rng("dreams"))


class Student:
    """A fresh DQN and the items with targets it learns, for as many steps as consolidation takes per task."""

    uses_weights = False  # batches do not depend on the weights in training

    def __init__(self, context: Context, tasks: Sequence[Task], items: Items) -> None:
        self.context, self.tasks, settings = context, tasks, context.settings
        self.network = context.q_network()
        weights = FlatWeights(self.network)
        self.best = BestWeights(weights, settings.long_term.best_window, by_score=False)
        self.batches = BatchSampler(items.sample, settings.training.batch_size, context.rng("batches"))
        self.parts = Parts(batches=self.batches)
        self.trainer = Trainer(context, weights, loss=self.loss, batches=self, best=self.best)

    def sample(self, updates: int) -> list[Batch]:
        """(states, targets) per update."""
        return self.batches.sample(updates)

    def loss(
        self, forward: Forward, weights: list[torch.Tensor], states: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        return distill_loss(forward(states), targets).mean()

    def learn(self) -> list[Row]:
        """Trains to the end and returns the evaluations; the network then has the weights of the best window."""
        context, titles = self.context, " and ".join(task.title for task in self.tasks)
        context.checkpointer.register("sampler", self.parts)
        with self.trainer.evaluator as evaluator:
            self.trainer.run(f"train student of {titles}", context.settings.long_term.agent_steps, self.tasks)
            self.best.load()
            return evaluator.finish()
