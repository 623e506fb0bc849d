"""The discriminator (Table gan-arch), and the same family for small frames. It is never kept."""

from __future__ import annotations

import torch
from torch import nn

from reaper.compute.layouts import SMALL_FRAME
from reaper.compute.patches import PatchConvolution
from reaper.compute.space_to_depth import conv2d, conv2d_input_gradient
from reaper.equations import score_gradients
from reaper.networks.convolutional import Convolution


def discriminator_layers(frame_size: int) -> tuple[tuple[Convolution, ...], int]:
    """The convolutions for a frame size and the width of a hidden layer behind them; the paper's has none."""
    if frame_size < SMALL_FRAME:
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

        self.space_to_depth = frame_size >= SMALL_FRAME

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, input_gradients: bool = False
    ) -> torch.Tensor:
        """Scores; with `input_gradients`, the gradient of each state's score with respect to that state."""
        if self.space_to_depth and (states.is_cuda or compute_dtype is not None):
            run = self.input_gradients_space_to_depth if input_gradients else self.forward_space_to_depth
            return run(states, compute_dtype)
        if input_gradients:
            return score_gradients(self.layers, states)
        return self.layers(states).squeeze(1)

    def forward_space_to_depth(self, states: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same on folded frames; maps and kernels rounded, scores not."""
        maps = states.to(compute_dtype or states.dtype)
        for convolution, rectifier in self.pairs():
            maps = rectifier(conv2d(convolution, maps))
        return self.score(maps.flatten(1).to(states.dtype)).squeeze(1)

    def input_gradients_space_to_depth(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The derivatives, layer by layer from the last one. Written out, because taking derivatives of derivatives of
        convolutions by themselves makes kernels as large as the frame, which are slow. A rectifier's slope does not
        change with the weights."""
        maps, signs = states.to(compute_dtype or states.dtype), []
        with torch.no_grad():
            for convolution, rectifier in self.pairs():
                maps = conv2d(convolution, maps)
                signs.append(maps > 0)
                maps = rectifier(maps)
        slopes = self.score.weight.to(maps.dtype).view(1, *maps.shape[1:]).expand_as(maps)
        for (convolution, rectifier), positive in zip(reversed(self.pairs()), reversed(signs), strict=True):
            slopes = torch.where(positive, slopes, rectifier.negative_slope * slopes)
            slopes = conv2d_input_gradient(convolution, slopes)
        return slopes.to(states.dtype)

    def pairs(self) -> list[tuple[nn.Conv2d, nn.LeakyReLU]]:
        """The convolutions, each with the rectifier behind it."""
        features = list(self.layers)[:-2]
        return list(zip(features[::2], features[1::2], strict=True))  # pyright: ignore[reportReturnType]

    @property
    def score(self) -> nn.Linear:
        return self.layers[-1]  # pyright: ignore[reportReturnType]
