"""Deep Q-learning (Mnih et al. 2015): batches from a replay, targets from a target network, and their loss."""

from __future__ import annotations

import torch

from reaper.compute.compilation import forward
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, BatchSampler, Forward
from reaper.context import Context
from reaper.equations import dqn_loss, dqn_target
from reaper.learning.trainer import crossed
from reaper.memory.replay import Replay
from reaper.randomness import RNG
from reaper.state import Parts


class QLearning:
    """The temporal-difference updates of a Q-network, whoever owns it: a short-term or a long-term agent."""

    def __init__(self, context: Context, weights: FlatWeights, replay: Replay) -> None:
        self.settings, self.replay, self.weights = context.settings, replay, weights
        self.target = context.q_network(weights.network.state_dict())
        self.target_weights = FlatWeights(self.target)
        self._forward = context.compile(forward)
        # As in updates, except on a GPU, where targets are not the bottleneck.
        self.compute_dtype = context.compute_dtype if context.device.type == "cpu" else None
        self.batches = BatchSampler(self._with_targets, self.settings.training.batch_size, context.rng("batches"))
        self.parts = Parts(batches=self.batches, target=self.target_weights)

    def sample(self, updates: int) -> list[Batch]:
        """(states, actions, targets) per update."""
        return self.batches.sample(updates)

    @torch.no_grad()
    def _with_targets(self, count: int, rng: RNG) -> tuple[torch.Tensor, ...]:
        batch = self.replay.sample(count, rng)
        next_values = self._forward(self.target, batch.next_states, self.compute_dtype)
        targets = dqn_target(batch.rewards, batch.terminals, next_values, self.settings.short_term.discount)
        return batch.states, batch.actions, targets

    def loss(self, forward: Forward, weights: list[torch.Tensor], *batch: torch.Tensor) -> torch.Tensor:
        states, *targets = batch
        return self.output_loss(forward(states), *targets)

    @staticmethod
    def output_loss(outputs: torch.Tensor, actions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss for the network's outputs (N, num_actions)."""
        return dqn_loss(outputs, actions, targets)

    def after_steps(self, before: int, after: int) -> None:
        """Copies the network to the target network at its interval."""
        if crossed(self.settings.short_term.target_update_interval, before, after):
            self.target_weights.copy_from(self.weights)
