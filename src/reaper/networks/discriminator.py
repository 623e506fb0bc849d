"""The discriminator (Table gan-arch), and the same family for small frames. It is never kept."""

from __future__ import annotations

import torch
from torch import nn

from reaper.networks.patches import PatchConvolution
from reaper.networks.q_network import SMALL, Convolution


def discriminator_layers(frame_size: int) -> tuple[tuple[Convolution, ...], int]:
    """The convolutions for a frame size and the width of a hidden layer behind them; the paper's has none."""
    if frame_size < SMALL:
        return (Convolution(32, 2, 2), Convolution(64, 2, 2)), 128
    return (Convolution(64, 5, 3), Convolution(128, 5, 2), Convolution(256, 5, 2)), 0


def _convolution(channels: int, filters: int, kernel: int, stride: int) -> nn.Module:
    """SAME padding: the side shrinks by exactly the stride."""
    if kernel == stride:
        return PatchConvolution(channels, filters, kernel)
    return nn.Conv2d(channels, filters, kernel, stride, (kernel - stride + 1) // 2)


class Discriminator(nn.Module):
    """States (N, history, size, size) in [-1, 1] -> one score a state (N,)."""

    def __init__(self, frame_size: int, history: int) -> None:
        super().__init__()
        convolutions, hidden = discriminator_layers(frame_size)
        layers: list[nn.Module] = []
        channels, side = history, frame_size
        for filters, kernel, stride, _ in convolutions:
            layers += [_convolution(channels, filters, kernel, stride), nn.LeakyReLU(0.2)]
            channels, side = filters, side // stride
        layers.append(nn.Flatten())
        features = channels * side * side
        if hidden:
            layers += [nn.Linear(features, hidden), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden or features, 1))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.layers(states).squeeze(1)
