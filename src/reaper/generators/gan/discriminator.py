"""The discriminator (Table gan-arch), and a smaller one for small frames. It is discarded after training."""

from __future__ import annotations

import torch
from torch import nn

from reaper.compute.patches import PatchConvolution
from reaper.compute.space_to_depth import conv2d, conv2d_input_gradient
from reaper.equations import score_gradients
from reaper.generators.gan.generator import initialise_adversarial
from reaper.networks.convolutional import Convolution
from reaper.tasks.observation import SMALL_FRAME


def discriminator_layers(side: int) -> tuple[tuple[Convolution, ...], int]:
    """The convolutions for images of a side, and the width of the hidden layer after them; the paper's has none."""
    if side < SMALL_FRAME:
        return (Convolution(32, 2, 2), Convolution(64, 2, 2)), 128
    return (Convolution(64, 5, 3), Convolution(128, 5, 2), Convolution(256, 5, 2)), 0


def _convolution(channels: int, filters: int, kernel: int, stride: int) -> nn.Module:
    """SAME padding: the side shrinks by exactly the stride."""
    if kernel == stride:
        return PatchConvolution(channels, filters, kernel)
    return nn.Conv2d(channels, filters, kernel, stride=stride, padding=(kernel - stride + 1) // 2)


class Discriminator(nn.Module):
    """States (N, channels, side, side) in [-1, 1] -> one score per state (N,)."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        self.space_to_depth = side >= SMALL_FRAME
        convolutions, hidden = discriminator_layers(side)
        layers: list[nn.Module] = []
        for filters, kernel, stride, _ in convolutions:
            layers += [_convolution(channels, filters, kernel, stride), nn.LeakyReLU(0.2)]
            channels, side = filters, side // stride
        layers.append(nn.Flatten())
        features = channels * side * side
        if hidden:
            layers += [nn.Linear(features, hidden), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden or features, 1))

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, input_gradients: bool = False
    ) -> torch.Tensor:
        """Scores (N,); with `input_gradients` the gradient of each score with respect to its state instead."""
        if self.space_to_depth and (states.is_cuda or compute_dtype is not None):
            compute = self.input_gradients_space_to_depth if input_gradients else self.forward_space_to_depth
            return compute(states, compute_dtype)
        if input_gradients:
            return score_gradients(self.layers, states)
        return self.layers(states).squeeze(1)

    def forward_space_to_depth(self, states: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same scores, faster on large images. Activations and kernels have the compute dtype, scores float32."""
        x = states.to(compute_dtype or states.dtype)
        for convolution, rectifier in self.pairs():
            x = rectifier(conv2d(convolution, x))
        return self.score(x.flatten(1).to(states.dtype)).squeeze(1)

    def input_gradients_space_to_depth(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The gradients, layer by layer from the last one. They are written out because autograd's second derivatives
        of convolutions use kernels as large as the image, which are slow. The slope of a rectifier does not depend on
        the weights, so the signs need no gradient."""
        x, signs = states.to(compute_dtype or states.dtype), []
        with torch.no_grad():
            for convolution, rectifier in self.pairs():
                x = conv2d(convolution, x)
                signs.append(x > 0)
                x = rectifier(x)
        gradients = self.score.weight.to(x.dtype).view(1, *x.shape[1:]).expand_as(x)
        for (convolution, rectifier), positive in zip(reversed(self.pairs()), reversed(signs), strict=True):
            gradients = torch.where(positive, gradients, rectifier.negative_slope * gradients)
            gradients = conv2d_input_gradient(convolution, gradients)
        return gradients.to(states.dtype)

    def initialise(self, rng: torch.Generator) -> None:
        initialise_adversarial(self, rng)

    def pairs(self) -> list[tuple[nn.Conv2d, nn.LeakyReLU]]:
        """Each convolution with the rectifier after it."""
        features = list(self.layers)[:-2]
        return list(zip(features[::2], features[1::2], strict=True))  # pyright: ignore[reportReturnType]

    @property
    def score(self) -> nn.Linear:
        return self.layers[-1]  # pyright: ignore[reportReturnType]
