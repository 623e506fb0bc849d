"""Algorithm 1: a fresh DQN learns one task by deep Q-learning and becomes the teacher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from reaper.compute.compilation import forward
from reaper.compute.optimiser import FlatWeights, agent_optimiser
from reaper.compute.update import BatchSampler, Forward, Update
from reaper.context import Context, state_tensors
from reaper.equations import dqn_loss, dqn_target
from reaper.learning.actor import Actor, exploration
from reaper.learning.evaluation.evaluator import Row
from reaper.learning.trainer import BestWeights, Trainer, crossed
from reaper.memory.replay import Replay
from reaper.networks.q_network import QNetwork
from reaper.randomness import RNG
from reaper.state import Parts
from reaper.tasks.task import Task, VectorTask


@dataclass(frozen=True)
class Teacher:
    """What short-term learning leaves behind."""

    weights: dict[str, torch.Tensor]
    value_mean: float  # of its Q-values over its replay, for conditions that standardise them
    value_deviation: float
    rows: list[Row] = field(default_factory=list)
    pictures: dict[str, torch.Tensor] = field(default_factory=dict)  # real states, for the report only


class QLearning:
    """Deep Q-learning of a network, with its target network: batches, and their loss."""

    def __init__(self, context: Context, network: QNetwork, weights: FlatWeights, replay: Replay) -> None:
        self.settings, self.replay, self.network, self.weights = context.settings, replay, network, weights
        self.target = context.q_network(network.state_dict())
        self.target_weights = FlatWeights(self.target)
        self.answer_of = context.compile(forward)
        # As in updates, except on a GPU, where targets are not the bottleneck.
        self.compute_dtype = context.compute_dtype if context.device.type == "cpu" else None
        self.batches = BatchSampler(self.draw, self.settings.training.batch_size, context.rng("batches"))
        self.parts = Parts(batches=self.batches, target=self.target_weights)

    @torch.no_grad()
    def draw(self, count: int, rng: RNG) -> tuple[torch.Tensor, ...]:
        """States, actions and what the target network says they are worth."""
        drawn = self.replay.sample(count, rng)
        next_values = self.answer_of(self.target, drawn.next_states, self.compute_dtype)
        targets = dqn_target(drawn.rewards, drawn.terminals, next_values, self.settings.short_term.discount)
        return drawn.states, drawn.actions, targets

    def loss(
        self,
        forward: Forward,
        weights: list[torch.Tensor],
        states: torch.Tensor,
        actions: torch.Tensor,
        targets: torch.Tensor,
    ) -> torch.Tensor:
        return dqn_loss(forward(states), actions, targets)

    def after_frames(self, before: int, now: int) -> None:
        """Copies the network to the target at its interval."""
        if crossed(self.settings.short_term.target_update_interval, before, now):
            self.target_weights.copy_from(self.weights)


def new_replay(context: Context) -> Replay:
    training = context.settings.training
    return Replay(training.replay_capacity, training.num_envs, context.observation, context.device)


def new_actor(context: Context, games: VectorTask) -> Actor:
    history = context.settings.observation.frame_stack
    return Actor(games, history, context.num_actions, context.device, context.compile)


class ShortTerm:
    """A fresh DQN, the task it is to learn, and everything between them."""

    def __init__(self, context: Context, task: Task) -> None:
        settings = context.settings
        self.context, self.task = context, task
        self.network = context.q_network()
        weights = FlatWeights(self.network)
        self.replay = new_replay(context)
        q_learning = QLearning(context, self.network, weights, self.replay)
        optimiser = agent_optimiser(settings.optimiser, weights)
        update = Update(
            weights,
            optimiser,
            q_learning.loss,
            max_grad_norm=settings.optimiser.max_grad_norm,
            compiles=context.compiles,
            compute_dtype=context.compute_dtype,
        )
        self.best = BestWeights(weights, settings.short_term.best_window, by_score=True)
        self.games = context.open(task, settings.training.num_envs)
        actor, draw = new_actor(context, self.games), q_learning.batches.sample
        self.trainer = Trainer(
            context, weights, update, self.best, draw, q_learning.parts, actor, self.replay, q_learning.after_frames
        )
        context.checkpointer.register("q_learning", q_learning.parts)

    def learn(self) -> Teacher:
        """Trains to the end and returns the weights of the best window."""
        context, frames = self.context, self.context.settings.short_term.agent_steps
        with self.trainer.evaluator as evaluator:
            self.trainer.run(f"learn {self.task.title}", frames, [self.task])
            self.close()
            self.best.put_back()
            with torch.no_grad():
                values = self.network(self.replay.sample_states(2_000, context.rng("value statistics")))
            pictures = {"real": self.replay.distinct_states(64, context.rng("pictures")).cpu()}
            rows = evaluator.finish()
        return Teacher(state_tensors(self.network), float(values.mean()), float(values.std()), rows, pictures)

    def close(self) -> None:
        self.games.close()


class Gathering:
    """Plays a finished agent until it has the replay its training would have left: the same length, the same rates of
    exploration. So no replay ever has to be stored or handed from stage to stage."""

    def __init__(self, context: Context, network: QNetwork, task: Task) -> None:
        self.context, self.network, self.task = context, network, task
        self.replay, self.rng = new_replay(context), context.cpu_rng("gathering")
        self.actor = new_actor(context, context.open(task, context.settings.training.num_envs))
        self.total = context.settings.short_term.agent_steps
        self.first_frame = max(0, self.total - context.settings.training.replay_capacity)
        self.frame: int | None = None  # None: not begun

    def run(self) -> Replay:
        context, training = self.context, self.context.settings.training
        context.checkpointer.register("gathering", self)
        if self.frame is None:
            self.frame = self.first_frame
            self.actor.begin(context.derive_seed("gathered games"))
        least = (context.settings.observation.frame_stack + 2) * training.num_envs
        total = max(self.total - self.first_frame, least)
        context.progress.begin(f"gather {self.task.title}", total, done=self.frame - self.first_frame)
        while self.frame < self.total or not self.replay.ready():
            self.actor.send(self.network, exploration(self.frame, training), self.rng)
            self.actor.receive()
            self.actor.settle()
            self.replay.add(self.actor.moment())
            scores = self.actor.take_scores()
            context.progress.advance(training.num_envs, sum(scores) / len(scores) if scores else None)
            self.frame += training.num_envs
            context.checkpointer.maybe_save(training.num_envs)
        self.actor.rest()
        self.actor.task.close()
        return self.replay

    def _parts(self) -> Parts:
        return Parts(replay=self.replay, actor=self.actor, acting=self.rng)

    def state(self) -> dict[str, Any]:
        return {"frame": self.frame, **self._parts().state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.frame = state["frame"]
        self._parts().restore(state)
