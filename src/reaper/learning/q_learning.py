"""Deep Q-learning (Mnih et al. 2015): batches from a replay, targets from a target network, and their loss.

The settings choose among published improvements: n-step returns, double Q-learning, Munchausen targets, Huber's loss,
quantiles of the return instead of its mean.
"""

from __future__ import annotations

import torch

from reaper.compute.compilation import forward
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, BatchSampler, Forward
from reaper.context import Context
from reaper.equations import (
    bootstrap,
    double_q_values,
    dqn_loss,
    dqn_target,
    huber_loss,
    munchausen_bonus,
    quantile_loss,
    quantiles_of_actions,
    soft_quantiles,
    soft_values,
)
from reaper.learning.trainer import crossed
from reaper.memory.replay import Replay, TransitionBatch
from reaper.networks.q_network import QNetwork
from reaper.networks.residual import is_residual
from reaper.randomness import RNG
from reaper.state import Parts


class QLearning:
    """The temporal-difference updates of a Q-network, whoever owns it: a short-term or a long-term agent.

    Targets are of the task's own actions, the network's first `num_actions`: values of others would never be learnt.
    """

    def __init__(
        self,
        context: Context,
        weights: FlatWeights[QNetwork],
        replay: Replay,
        num_actions: int,
        *,
        batch_size: int | None = None,
    ) -> None:
        self.settings, self.replay, self.weights, self.num_actions = context.settings, replay, weights, num_actions
        self.quantiles = weights.network.quantiles
        self.target = context.copy_of(weights.network)
        self.target_weights = FlatWeights(self.target)
        self._forward = context.compile(forward)
        # As in updates, except on a GPU, where targets of the paper's network are not the bottleneck.
        rounds = context.device.type == "cpu" or is_residual(weights.network.state_dict())
        self.compute_dtype = context.compute_dtype if rounds else None
        batch_size = batch_size or self.settings.training.batch_size
        self.batches = BatchSampler(self._with_targets, batch_size, context.rng("batches"))
        self.parts = Parts(batches=self.batches, target=self.target_weights)

    def sample(self, updates: int) -> list[Batch]:
        """(states, actions, targets) per update."""
        return self.batches.sample(updates)

    @property
    def uses_weights(self) -> bool:
        """Whether targets depend on the weights in training."""
        return self.settings.short_term.target == "double"

    @torch.no_grad()
    def _with_targets(self, count: int, rng: RNG) -> tuple[torch.Tensor, ...]:
        batch = self.replay.sample(count, rng, self.settings.short_term.discount)
        return batch.states, batch.actions, self.targets(batch)

    def targets(self, batch: TransitionBatch) -> torch.Tensor:
        """(N,), or (N, quantiles)."""
        if self.quantiles > 1:
            return self._target_quantiles(batch)
        settings, rewards = self.settings.short_term, self._rewards(batch)
        next_q = self._values(self.target, batch.next_states)
        if settings.target == "dqn":
            return dqn_target(rewards, batch.terminals, next_q, batch.discounts)
        if settings.target == "double":
            values = double_q_values(next_q, self._values(self.weights.network, batch.next_states))
        else:
            values = soft_values(next_q, settings.munchausen_temperature)
        return bootstrap(rewards, batch.terminals, values, batch.discounts)

    def _target_quantiles(self, batch: TransitionBatch) -> torch.Tensor:
        settings = self.settings.short_term
        quantiles = self._values(self.target, batch.next_states, all_quantiles=True)
        if settings.target == "munchausen":
            values = soft_quantiles(quantiles, settings.munchausen_temperature)
        else:
            double = settings.target == "double"
            means = self._values(self.weights.network, batch.next_states) if double else quantiles.mean(dim=2)
            values = quantiles_of_actions(quantiles, means.argmax(dim=1))
        columns = (tensor.unsqueeze(1) for tensor in (self._rewards(batch), batch.terminals, batch.discounts))
        rewards, terminals, discounts = columns
        return bootstrap(rewards, terminals, values, discounts)

    def _rewards(self, batch: TransitionBatch) -> torch.Tensor:
        settings = self.settings.short_term
        if settings.target != "munchausen":
            return batch.rewards
        return batch.rewards + munchausen_bonus(
            self._values(self.target, batch.states),
            batch.actions,
            settings.munchausen_temperature,
            settings.munchausen_scale,
            settings.munchausen_minimum,
        )

    def _values(self, network: torch.nn.Module, states: torch.Tensor, **options: bool) -> torch.Tensor:
        return self._forward(network, states, self.compute_dtype, **options)[:, : self.num_actions]

    def loss(self, forward: Forward, weights: list[torch.Tensor], *batch: torch.Tensor) -> torch.Tensor:
        states, *targets = batch
        if self.quantiles > 1:
            return quantile_loss(forward(states, all_quantiles=True), *targets)
        return self.output_loss(forward(states), *targets)

    def output_loss(self, outputs: torch.Tensor, actions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss for the network's outputs (N, num_actions)."""
        loss = huber_loss if self.settings.short_term.loss == "huber" else dqn_loss
        return loss(outputs, actions, targets)

    def after_steps(self, before: int, after: int) -> None:
        """Copies the network to the target network at its interval."""
        if crossed(self.settings.short_term.target_update_interval, before, after):
            self.target_weights.copy_from(self.weights)
