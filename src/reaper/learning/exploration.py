"""Epsilon-greedy action selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from reaper.config.settings import TrainingSettings
from reaper.state import State

ForwardPass = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]  # (network, states) -> outputs; may be compiled


def epsilon_at(agent_steps: int, settings: TrainingSettings) -> float:
    """1 until learning starts, then decays linearly to the final epsilon."""
    if agent_steps < settings.learning_starts:
        return 1.0
    progress = min(1.0, agent_steps / settings.exploration_steps)
    return settings.initial_epsilon + progress * (settings.final_epsilon - settings.initial_epsilon)


@torch.no_grad()
def greedy_actions(
    forward: ForwardPass, network: torch.nn.Module, states: torch.Tensor, num_actions: int
) -> torch.Tensor:
    """(N, *observation.shape) -> (N,) int64: the best of the task's own actions, the network's first `num_actions`."""
    return forward(network, states)[:, :num_actions].argmax(dim=1)


class RandomActions(NamedTuple):
    """One row per environment."""

    actions: torch.Tensor  # (num_envs,) int64, uniform
    explore: torch.Tensor  # (num_envs,) bool: take the random action instead of the greedy one


class EpsilonGreedy:
    """Samples the random part of the next actions, on the CPU, so that it is the same on every device.

    They are sampled ahead, while the environments step: afterwards the environments would be idle for it.
    """

    def __init__(self, num_envs: int, num_actions: int) -> None:
        """`num_actions` are those of the task, which may be fewer than the network's outputs."""
        self.num_envs, self.num_actions = num_envs, num_actions
        self.sampled: RandomActions | None = None  # for the next step

    def sample(self, epsilon: float, rng: torch.Generator) -> None:
        """Samples for the next step, unless that was done before."""
        if self.sampled is None:
            actions = torch.randint(self.num_actions, (self.num_envs,), generator=rng)
            self.sampled = RandomActions(actions, torch.rand(self.num_envs, generator=rng) < epsilon)

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        """The sampled actions, and where to explore."""
        assert self.sampled is not None, "sample before you take"
        (actions, explore), self.sampled = self.sampled, None
        return actions.numpy(), explore.numpy()

    def state(self) -> State | None:
        return self.sampled._asdict() if self.sampled else None

    def restore(self, state: State | None) -> None:
        self.sampled = RandomActions(**state) if state else None
