"""The DQN (Table dqn-arch), and the same family scaled down for small frames."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from reaper.compute.space_to_depth import convolve
from reaper.errors import UserError

SMALL = 36  # frames below this many pixels a side get the scaled-down networks


class Convolution(NamedTuple):
    filters: int
    kernel: int
    stride: int
    padding: int = 0


def q_network_layers(frame_size: int) -> tuple[tuple[Convolution, ...], int]:
    """Convolutions and the width of the hidden layer for a frame size."""
    if frame_size < 12:
        raise UserError(f"frames of {frame_size} pixels a side are too small; use at least 12")
    if frame_size < SMALL:
        # Padded, or the outermost pixels of a small frame would never be read: 16, 8, 4.
        return (Convolution(16, 4, 2, 1), Convolution(32, 4, 2, 1)), 128
    return (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512


def _narrow(features: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """A linear layer of few outputs as sums, which a compiler fuses with their neighbours: as a product of matrices it
    takes a GPU three times as long."""
    return (features[:, None, :] * layer.weight).sum(dim=-1) + layer.bias


class QNetwork(nn.Module):
    """States (N, history, size, size) uint8 -> one value an action (N, actions)."""

    def __init__(self, frame_size: int, history: int, actions: int, width: int = 1) -> None:
        super().__init__()
        convolutions, hidden = q_network_layers(frame_size)
        layers: list[nn.Module] = []
        channels, side = history, frame_size
        for filters, kernel, stride, padding in convolutions:
            layers += [nn.Conv2d(channels, filters * width, kernel, stride, padding), nn.ReLU()]
            channels, side = filters * width, (side + 2 * padding - kernel) // stride + 1
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.hidden = nn.Linear(channels * side * side, hidden * width)
        self.values = nn.Linear(hidden * width, actions)
        # Large frames are quickest channels-last: the first layer's backward pass takes a quarter of the time on a CPU.
        self.layout = torch.contiguous_format if frame_size < SMALL else torch.channels_last
        self.folds: bool | None = None  # whether frames are folded; None: on a GPU, or where maps are rounded
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, states: torch.Tensor, rounding: torch.dtype | None = None) -> torch.Tensor:
        pixels = states.to(self.values.weight.dtype, memory_format=self.layout).div(255.0)
        if (pixels.is_cuda or rounding is not None) if self.folds is None else self.folds:
            return self.folded(pixels, rounding)
        return self.values(torch.relu(self.hidden(self.features(pixels))))

    def folded(self, pixels: torch.Tensor, rounding: torch.dtype | None = None) -> torch.Tensor:
        """The same on folded frames; maps and kernels rounded, the values not."""
        maps = pixels.to(rounding or pixels.dtype)
        for layer in self.features:
            maps = convolve(layer, maps) if isinstance(layer, nn.Conv2d) else layer(maps)
        hidden, values = self.hidden, self.values
        features = nn.functional.linear(maps, hidden.weight.to(maps.dtype), hidden.bias.to(maps.dtype))
        return _narrow(torch.relu(features).to(values.weight.dtype), values)

    def initialise(self, how: str, generator: torch.Generator) -> None:
        """`paper`: N(0, 0.01), re-drawn beyond two standard deviations, biases 0.01 (appendix DQN). `he`: uniform,
        scaled to the layer's inputs, biases zero: small networks learn in half the frames with it."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.constant_(parameter, 0.01 if how == "paper" else 0.0)
            elif how == "paper":
                nn.init.trunc_normal_(parameter, 0.0, 0.01, -0.02, 0.02, generator=generator)
            else:
                nn.init.kaiming_uniform_(parameter, nonlinearity="relu", generator=generator)
