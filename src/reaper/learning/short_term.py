"""Algorithm 1: a fresh DQN learns one task by deep Q-learning and becomes its teacher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.context import Context, state_tensors
from reaper.equations import advantages
from reaper.learning.best_weights import BestWeights
from reaper.learning.evaluation.episodes import Row
from reaper.learning.experience import Experience
from reaper.learning.q_learning import QLearning
from reaper.learning.trainer import Trainer
from reaper.tasks.task import Task

VALUE_STATES = 2_000  # for the statistics of Q-values
STORED_STATES = 64  # for the report


@dataclass(frozen=True)
class TrainedAgent:
    """What short-term learning results in."""

    weights: dict[str, torch.Tensor]
    value_mean: float  # of its Q-values over its replay, for conditions that standardise them
    value_std: float
    advantage_std: float  # of what of them differs between actions
    best: dict[str, Any]  # how its weights were chosen
    rows: list[Row] = field(default_factory=list)  # of its evaluations
    states: dict[str, torch.Tensor] = field(default_factory=dict)  # real states, for the report only


class ShortTerm:
    """A fresh DQN, the task it learns, and everything in between."""

    def __init__(self, context: Context, task: Task) -> None:
        self.context, self.task, self.settings = context, task, context.settings.short_term
        residual, training = self.settings.network == "residual", context.settings.training
        self.network = context.q_network(quantiles=self.settings.quantiles, residual=residual)
        weights = FlatWeights(self.network)
        self.experience = Experience(context, task)
        batch_size = self.settings.batch_size or training.batch_size
        self.q_learning = QLearning(context, weights, self.experience.replay, task.num_actions, batch_size=batch_size)
        self.best = BestWeights(
            weights,
            self.settings.best_window,
            by_score=True,
            min_episodes=training.best_episodes,
            average=training.weight_average,
        )
        self.trainer = Trainer(
            context,
            weights,
            loss=self.q_learning.loss,
            batches=self.q_learning,
            best=self.best,
            experience=self.experience,
            after_steps=self.q_learning.after_steps,
            steps_per_update=self.settings.steps_per_update or training.steps_per_update,
        )
        context.checkpointer.register("q_learning", self.q_learning.parts)

    def learn(self) -> TrainedAgent:
        """Trains to the end and returns the best weights."""
        context, replay = self.context, self.experience.replay
        with self.trainer.evaluator as evaluator:
            self.trainer.run(f"learn {self.task.title}", self.settings.agent_steps, [self.task])
            self.close()
            self.best.load()
            with torch.no_grad():
                visited = replay.sample_states(VALUE_STATES, context.rng("value statistics"))
                values = self.network(visited)[:, : self.task.num_actions]
            states = {"real": replay.distinct_states(STORED_STATES, context.rng("pictures")).cpu()}
            rows = evaluator.finish()
        return TrainedAgent(
            weights=state_tensors(self.network),
            value_mean=float(values.mean()),
            value_std=float(values.std()),
            advantage_std=float(advantages(values).std()),
            rows=rows,
            best=self.best.record(),
            states=states,
        )

    def close(self) -> None:
        """Closes the environments."""
        self.experience.close()
