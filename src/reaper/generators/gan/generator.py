"""The generator that dreams up states (Table gan-arch), and the same family for small frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reaper.compute.layouts import SMALL_FRAME
from reaper.compute.patches import PatchDeconvolution
from reaper.compute.space_to_depth import channels_last, deconv2d_between_depths, deconv2d_to_depth, depth_to_space
from reaper.context import state_tensors
from reaper.equations import unscale
from reaper.errors import UserError
from reaper.generators.base import FittedGenerator
from reaper.memory.items import empty_states
from reaper.networks.convolutional import Convolution


def _normalise(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation; TensorFlow's momentum 0.9 is torch's 0.1."""
    layer = nn.BatchNorm2d(channels, eps=1e-5, momentum=0.1)
    # Of no use beside a momentum, and counting would keep a step from being compiled.
    layer.num_batches_tracked = None  # pyright: ignore[reportAttributeAccessIssue]
    return layer


def generator_layers(frame_size: int) -> tuple[int, int, tuple[Convolution, ...]]:
    """Filters and side of the first layer's maps, then the deconvolutions; the last one's filters are the history."""
    shrink = 4 if frame_size < SMALL_FRAME else 12
    if frame_size % shrink:
        raise UserError(f"a generator needs frames whose side divides by {shrink}, not {frame_size}")
    if frame_size < SMALL_FRAME:
        return 128, frame_size // 4, (Convolution(32, 2, 2), Convolution(0, 2, 2))
    deconvolutions = (Convolution(256, 5, 3), Convolution(128, 5, 2), Convolution(64, 5, 2), Convolution(0, 5, 1))
    return 256, frame_size // 12, deconvolutions


def _deconvolution(channels: int, filters: int, kernel: int, stride: int) -> nn.Module:
    """SAME padding: the side grows by exactly the stride."""
    if kernel == stride:
        return PatchDeconvolution(channels, filters, kernel)
    padding = (kernel - stride + 1) // 2
    return nn.ConvTranspose2d(channels, filters, kernel, stride, padding, 2 * padding - (kernel - stride))


def _normalised(maps: torch.Tensor, layer: nn.BatchNorm2d, s: int) -> torch.Tensor:
    """Batch normalisation of maps folded by s: the channels of all places in a block are the same ones."""
    last = maps.permute(0, 2, 3, 1)
    flat = last.reshape(-1, last.shape[3] // (s * s))
    means, variances, momentum = layer.running_mean, layer.running_var, layer.momentum or 0.0
    normalised = functional.batch_norm(
        flat, means, variances, layer.weight, layer.bias, layer.training, momentum, layer.eps
    )
    return normalised.view(last.shape).permute(0, 3, 1, 2)


class GeneratorNetwork(nn.Module):
    """Latent variables (N, latents) in [-1, 1] -> states (N, history, size, size) in [-1, 1]."""

    def __init__(self, frame_size: int, history: int, latents: int, width: int = 1) -> None:
        super().__init__()
        filters, side, deconvolutions = generator_layers(frame_size)
        channels = filters * width
        self.latents, self.history, self.frame_size = latents, history, frame_size
        layers: list[nn.Module] = []
        layers += [nn.Linear(latents, channels * side * side), nn.Unflatten(1, (channels, side, side))]
        layers += [_normalise(channels), nn.ReLU()]
        for filters, kernel, stride, _ in deconvolutions:
            last = filters == 0
            out = history if last else filters * width
            layers.append(_deconvolution(channels, out, kernel, stride))
            layers += [nn.Tanh()] if last else [_normalise(out), nn.ReLU()]
            channels = out
        self.layers = nn.Sequential(*layers)
        self.space_to_depth = frame_size >= SMALL_FRAME

    def forward(self, latents: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        folds = self.space_to_depth and (latents.is_cuda or compute_dtype is not None)
        return self.forward_space_to_depth(latents, compute_dtype) if folds else self.layers(latents)

    def forward_space_to_depth(self, latents: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same on folded frames; maps and kernels rounded, batch statistics and what comes out not."""
        dtype = compute_dtype or latents.dtype
        layers: list[Any] = list(self.layers)
        dense, shape, normalise, _, *hidden, last, squash = layers
        maps = functional.linear(latents.to(dtype), dense.weight.to(dtype), dense.bias.to(dtype))
        maps = torch.relu(_normalised(shape(maps), normalise, 1))
        *strided, (folding, last_normalise, _) = zip(*[iter(hidden)] * 3, strict=True)
        for layer, normalise, _ in strided:  # here the zeros that fill up folded kernels cost more than folding brings
            maps = torch.relu(_normalised(self._strided(layer, maps), normalise, 1))
        s: int = folding.stride[0]
        maps = deconv2d_to_depth(maps, *self._rounded(folding, dtype), s, folding.padding[0])
        maps = torch.relu(_normalised(maps, last_normalise, s))
        images = depth_to_space(deconv2d_between_depths(maps, last.weight.to(dtype), s, 2), 2 * s)
        return squash(images.to(latents.dtype) + last.bias[:, None, None])

    def _strided(self, layer: nn.ConvTranspose2d, maps: torch.Tensor) -> torch.Tensor:
        weight, bias = self._rounded(layer, maps.dtype)
        stride, padding, more = layer.stride[0], int(layer.padding[0]), layer.output_padding[0]
        return functional.conv_transpose2d(maps, channels_last(weight), bias, stride, padding, more)

    def _rounded(self, layer: nn.ConvTranspose2d, compute_dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights and biases of a layer that normalisation follows: it takes biases away while training, so their
        gradient is zero, but slow to find."""
        assert layer.bias is not None
        weight, bias = layer.weight.to(compute_dtype), layer.bias.to(compute_dtype)
        return weight, bias.detach() if self.training else bias

    def draw_latents(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """z = U(-1, 1)."""
        return torch.rand(count, self.latents, generator=rng, device=rng.device) * 2 - 1

    @torch.no_grad()
    def sample(self, count: int, rng: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        """Pseudo-items: uint8 states, drawn in inference mode so that a state does not depend on its neighbours."""
        self.eval()
        states = empty_states(count, (self.history, self.frame_size, self.frame_size), rng.device)
        for part in states.split(chunk):
            part.copy_(unscale(self(self.draw_latents(len(part), rng))).round_())
        return states


@dataclass(frozen=True)
class FittedGAN(FittedGenerator):
    """The generator network; the discriminator is discarded after training."""

    network: GeneratorNetwork

    def sample(self, count: int, rng: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        return self.network.sample(count, rng, chunk)

    def state(self) -> dict[str, torch.Tensor]:
        return state_tensors(self.network)


def initialise_adversarial(network: nn.Module, rng: torch.Generator) -> None:
    """Weights N(0, 0.02), zero biases, for generator and discriminator alike."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02, generator=rng)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
