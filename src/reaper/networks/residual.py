"""A residual Q-network for teachers that learn images in fewer steps.

    image -> convolution of stride 2 -> pool -> convolution -> 2 blocks -> pool -> 2 blocks -> pool -> dense -> values

A block adds two convolutions to its input, as in IMPALA (Espeholt et al. 2018), and a pool is the maximum over 3x3 at
every second place. IMPALA's own network spends most of its time on the full frame, in convolutions with so few filters
that tensor cores are idle; this one has 64 on a quarter of the side. The last pool keeps the dense layer small. Small
frames are pooled only once, in the middle.

The long-term agent keeps the paper's network: what it needs of a teacher is its values, not its layers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from reaper.compute.layouts import is_small
from reaper.compute.space_to_depth import conv2d
from reaper.networks.q_network import QNetwork
from reaper.tasks.observation import ObservationSpec

FILTERS = 64  # half of them in the first convolution
HIDDEN = 512


class ResidualBlock(nn.Module):
    """x + convolution(relu(convolution(relu(x))))."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(filters, filters, 3, padding=1)
        self.second = nn.Conv2d(filters, filters, 3, padding=1)

    def forward(self, activations: torch.Tensor) -> torch.Tensor:
        return activations + conv2d(self.second, conv2d(self.first, activations.relu()).relu())


class ResidualQNetwork(QNetwork):
    """uint8 images (N, channels, height, width) -> values (N, num_actions)."""

    def __init__(self, observation: ObservationSpec, num_actions: int, width: int = 1) -> None:
        """`width` multiplies every hidden layer."""
        super().__init__()
        filters, hidden = FILTERS * width, HIDDEN * width
        self.pools_often = not is_small(observation)
        self.stem = nn.Conv2d(observation.shape[0], filters // 2, 4, stride=2, padding=1)
        self.widen = nn.Conv2d(filters // 2, filters, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(filters) for _ in range(4))
        sides = [side // 2 for side in observation.shape[1:]]
        for _ in range(3 if self.pools_often else 1):
            sides = [(side + 1) // 2 for side in sides]
        self.hidden = nn.Linear(filters * sides[0] * sides[1], hidden)
        self.values = nn.Linear(hidden, num_actions)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, all_quantiles: bool = False
    ) -> torch.Tensor:
        dtype = self.values.weight.dtype
        pixels = states.to(dtype, memory_format=torch.channels_last).div(255.0)
        features = self.features(pixels.to(compute_dtype or dtype)).flatten(1)
        hidden = functional.linear(features, self.hidden.weight.to(features.dtype), self.hidden.bias.to(features.dtype))
        return self.outputs(self.values(hidden.relu().to(dtype)), all_quantiles)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """What the dense layer sees, in the dtype of the pixels."""
        coarse = _pool(conv2d(self.stem, pixels)) if self.pools_often else conv2d(self.stem, pixels)
        first, second, third, fourth = self.blocks
        activations = second(first(conv2d(self.widen, coarse.relu())))
        activations = fourth(third(_pool(activations))).relu()
        return _pool(activations) if self.pools_often else activations

    def initialise(self, scheme: str, rng: torch.Generator) -> None:
        """As every Q-network, except that each block begins as the identity and all values as zero: without
        normalisation, activations would grow from block to block, and the first targets would be noise."""
        super().initialise(scheme, rng)
        nn.init.zeros_(self.values.weight)
        for block in self.blocks:
            nn.init.zeros_(block.second.weight)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


def is_residual(weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether these are the weights of a residual network, by their names."""
    return any(name.startswith("blocks.") for name in weights)


def _pool(activations: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) -> (N, C, H/2, W/2), rounded up."""
    return functional.max_pool2d(activations, 3, stride=2, padding=1)
