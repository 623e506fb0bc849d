"""The Q-network for vectors: two hidden layers of 256 units, a common choice for classic control."""

from __future__ import annotations

import torch
from torch import nn

from reaper.networks.q_network import QNetwork
from reaper.tasks.observation import ObservationSpec

HIDDEN = 256


class MLPQNetwork(QNetwork):
    """float32 vectors (N, features) -> values (N, num_actions)."""

    def __init__(self, observation: ObservationSpec, num_actions: int, width: int = 1) -> None:
        """`width` multiplies both hidden layers."""
        super().__init__()
        hidden = HIDDEN * width
        self.features = nn.Sequential(
            nn.Linear(observation.size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.values = nn.Linear(hidden, num_actions)

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, all_quantiles: bool = False
    ) -> torch.Tensor:
        """Too small to gain from a compute dtype: it is ignored."""
        return self.outputs(self.values(self.features(states.to(self.values.weight.dtype))), all_quantiles)
