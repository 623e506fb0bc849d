"""The paper's DQN (Table dqn-arch) for images, and the same family scaled down for small ones."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from reaper.compute.layouts import is_small
from reaper.compute.space_to_depth import conv2d
from reaper.errors import UserError
from reaper.networks.q_network import QNetwork
from reaper.tasks.observation import ObservationSpec

SMALLEST_FRAME = 12  # pixels per side that the two convolutions of the small network need


class Convolution(NamedTuple):
    filters: int
    kernel: int
    stride: int
    padding: int = 0


def q_network_layers(observation: ObservationSpec) -> tuple[tuple[Convolution, ...], int]:
    """Convolutions, and the width of the hidden layer behind them."""
    side = min(observation.shape[1:])
    if side < SMALLEST_FRAME:
        raise UserError(f"frames of {side} pixels per side are too small; use at least {SMALLEST_FRAME}")
    if is_small(observation):
        # Padded, or the outermost pixels of a small frame would never be read: 16, 8, 4.
        return (Convolution(16, 4, 2, 1), Convolution(32, 4, 2, 1)), 128
    return (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512


class ConvQNetwork(QNetwork):
    """uint8 images (N, channels, height, width) -> values (N, num_actions)."""

    def __init__(self, observation: ObservationSpec, num_actions: int, width: int = 1) -> None:
        """`width` multiplies every hidden layer (extended experiment)."""
        super().__init__()
        convolutions, hidden = q_network_layers(observation)
        layers: list[nn.Module] = []
        channels, *sides = observation.shape
        for filters, kernel, stride, padding in convolutions:
            layers += [nn.Conv2d(channels, filters * width, kernel, stride=stride, padding=padding), nn.ReLU()]
            channels, sides = filters * width, [(side + 2 * padding - kernel) // stride + 1 for side in sides]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.hidden = nn.Linear(channels * sides[0] * sides[1], hidden * width)
        self.values = nn.Linear(hidden * width, num_actions)
        # Channels-last makes the first layer's backward pass on a CPU four times as fast, but not for small frames.
        self.memory_format = torch.contiguous_format if is_small(observation) else torch.channels_last
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, all_quantiles: bool = False
    ) -> torch.Tensor:
        pixels = states.to(self.values.weight.dtype, memory_format=self.memory_format).div(255.0)
        faster = pixels.is_cuda or compute_dtype is not None
        if faster if self.space_to_depth is None else self.space_to_depth:
            return self.outputs(self.forward_space_to_depth(pixels, compute_dtype), all_quantiles)
        return self.outputs(self.values(torch.relu(self.hidden(self.features(pixels)))), all_quantiles)

    def forward_space_to_depth(self, pixels: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same outputs of the head with space-to-depth convolutions; activations and kernels in `compute_dtype`."""
        activations = pixels.to(compute_dtype or pixels.dtype)
        for layer in self.features:
            activations = conv2d(layer, activations) if isinstance(layer, nn.Conv2d) else layer(activations)
        dtype, hidden, values = activations.dtype, self.hidden, self.values
        features = nn.functional.linear(activations, hidden.weight.to(dtype), hidden.bias.to(dtype))
        features = torch.relu(features).to(values.weight.dtype)
        return _narrow_linear(features, values) if self.quantiles == 1 else values(features)


def _narrow_linear(features: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """A linear layer with few outputs as sums, which a compiler fuses with their neighbours; as a matrix product it
    takes a GPU three times as long."""
    return (features[:, None, :] * layer.weight).sum(dim=-1) + layer.bias
