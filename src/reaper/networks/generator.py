"""The generator that dreams up states (Table gan-arch), and the same family for small frames."""

from __future__ import annotations

import torch
from torch import nn

from reaper.equations import unscale
from reaper.errors import UserError
from reaper.networks.patches import PatchDeconvolution
from reaper.networks.q_network import SMALL, Convolution


def _normalise(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation; TensorFlow's momentum 0.9 is torch's 0.1."""
    return nn.BatchNorm2d(channels, eps=1e-5, momentum=0.1)


def generator_layers(frame_size: int) -> tuple[int, int, tuple[Convolution, ...]]:
    """Filters and side of the first layer's maps, then the deconvolutions; the last one's filters are the history."""
    shrink = 4 if frame_size < SMALL else 12
    if frame_size % shrink:
        raise UserError(f"a generator needs frames whose side divides by {shrink}, not {frame_size}")
    if frame_size < SMALL:
        return 128, frame_size // 4, (Convolution(32, 2, 2), Convolution(0, 2, 2))
    deconvolutions = (Convolution(256, 5, 3), Convolution(128, 5, 2), Convolution(64, 5, 2), Convolution(0, 5, 1))
    return 256, frame_size // 12, deconvolutions


def _deconvolution(channels: int, filters: int, kernel: int, stride: int) -> nn.Module:
    """SAME padding: the side grows by exactly the stride."""
    if kernel == stride:
        return PatchDeconvolution(channels, filters, kernel)
    padding = (kernel - stride + 1) // 2
    return nn.ConvTranspose2d(channels, filters, kernel, stride, padding, 2 * padding - (kernel - stride))


class Generator(nn.Module):
    """Latent variables (N, latents) in [-1, 1] -> states (N, history, size, size) in [-1, 1]."""

    def __init__(self, frame_size: int, history: int, latents: int, width: int = 1) -> None:
        super().__init__()
        filters, side, deconvolutions = generator_layers(frame_size)
        channels = filters * width
        self.latents = latents
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

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.layers(latents)

    def draw_latents(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        """z = U(-1, 1)."""
        return torch.rand(count, self.latents, generator=randomness, device=randomness.device) * 2 - 1

    @torch.no_grad()
    def dream(self, count: int, randomness: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        """Pseudo-items: uint8 states, drawn in inference mode so that a state does not depend on its neighbours."""
        self.eval()
        parts = [
            unscale(self(self.draw_latents(min(chunk, count - start), randomness))).round_().to(torch.uint8)
            for start in range(0, count, chunk)
        ]
        return torch.cat(parts)


def initialise_adversarial(network: nn.Module, randomness: torch.Generator) -> None:
    """Weights N(0, 0.02), zero biases, for generator and discriminator alike."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02, generator=randomness)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
