"""The discriminator (Table gan-arch), and the same family for small frames. It is never kept."""

from __future__ import annotations

import torch
from torch import nn

from reaper.networks.q_network import SMALL, Convolution


def discriminator_layers(frame_size: int) -> tuple[Convolution, ...]:
    """The convolutions for a frame size; a linear layer to one score follows."""
    if frame_size < SMALL:
        return (Convolution(32, 4, 2), Convolution(64, 4, 2))
    return (Convolution(64, 5, 3), Convolution(128, 5, 2), Convolution(256, 5, 2))


class Discriminator(nn.Module):
    """States (N, history, size, size) in [-1, 1] -> one score a state (N,)."""

    def __init__(self, frame_size: int, history: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, side = history, frame_size
        for filters, kernel, stride in discriminator_layers(frame_size):
            padding = (kernel - stride + 1) // 2
            layers += [nn.Conv2d(channels, filters, kernel, stride, padding), nn.LeakyReLU(0.2)]
            channels, side = filters, side // stride
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, 1))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.layers(states).squeeze(1)
