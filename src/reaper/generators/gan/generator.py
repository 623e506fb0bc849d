"""The generator network for images (Table gan-arch), and a smaller one for small frames."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reaper.compute.patches import PatchDeconvolution
from reaper.compute.space_to_depth import channels_last, deconv2d_between_depths, deconv2d_to_depth, depth_to_space
from reaper.context import Context, state_tensors
from reaper.equations import noisy, rescale, unscale
from reaper.errors import UserError
from reaper.generators.base import FittedGenerator
from reaper.generators.gan.state_generator import StateGenerator
from reaper.networks.convolutional import Convolution
from reaper.tasks.observation import SMALL_FRAME

# Activations of more states are returned to the system after each use, and a CPU is slow on fresh memory.
CPU_CHUNK = 25


def _normalise(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation; TensorFlow's momentum 0.9 is torch's 0.1."""
    layer = nn.BatchNorm2d(channels, eps=1e-5, momentum=0.1)
    # Not needed with a fixed momentum, and a counter would prevent compilation.
    layer.num_batches_tracked = None  # pyright: ignore[reportAttributeAccessIssue]
    return layer


def generator_layers(side: int, channels: int, width: Fraction | int) -> tuple[int, int, tuple[Convolution, ...]]:
    """Channels and side of the first layer's activations, then the deconvolutions up to the image."""
    growth = 4 if side < SMALL_FRAME else 12
    if side % growth:
        raise UserError(f"the GAN needs images whose side is a multiple of {growth}, not {side}")

    def times_width(filters: int) -> int:
        return max(1, int(filters * width))

    if side < SMALL_FRAME:
        return times_width(128), side // growth, (Convolution(times_width(32), 2, 2), Convolution(channels, 2, 2))
    deconvolutions = (
        Convolution(times_width(256), 5, 3),
        Convolution(times_width(128), 5, 2),
        Convolution(times_width(64), 5, 2),
        Convolution(channels, 5, 1),
    )
    return times_width(256), side // growth, deconvolutions


def _deconvolution(channels: int, filters: int, kernel: int, stride: int) -> nn.Module:
    """SAME padding: the side grows by exactly the stride."""
    if kernel == stride:
        return PatchDeconvolution(channels, filters, kernel)
    padding = (kernel - stride + 1) // 2
    output_padding = 2 * padding - (kernel - stride)
    return nn.ConvTranspose2d(channels, filters, kernel, stride=stride, padding=padding, output_padding=output_padding)


def _normalised(activations: torch.Tensor, layer: nn.BatchNorm2d, s: int) -> torch.Tensor:
    """Batch normalisation of activations (N, s*s*C, H, W) in space-to-depth form: all s*s places of a block share the
    statistics of their C channels."""
    last = activations.permute(0, 2, 3, 1)
    flat = last.reshape(-1, last.shape[3] // (s * s))
    normalised = functional.batch_norm(
        flat,
        layer.running_mean,
        layer.running_var,
        weight=layer.weight,
        bias=layer.bias,
        training=layer.training,
        momentum=layer.momentum or 0.0,
        eps=layer.eps,
    )
    return normalised.view(last.shape).permute(0, 3, 1, 2)


class GeneratorNetwork(StateGenerator):
    """Latent variables (N, latent_size) in [-1, 1] -> states (N, channels, side, side) in [-1, 1]."""

    dtype = torch.uint8

    def __init__(self, side: int, channels: int, latent_size: int, width: Fraction | int = 1) -> None:
        super().__init__()
        self.latent_size, self.state_shape = latent_size, (channels, side, side)
        inner, inner_side, deconvolutions = generator_layers(side, channels, width)
        layers: list[nn.Module] = []
        layers += [nn.Linear(latent_size, inner * inner_side**2), nn.Unflatten(1, (inner, inner_side, inner_side))]
        layers += [_normalise(inner), nn.ReLU()]
        for filters, kernel, stride, _ in deconvolutions[:-1]:
            layers += [_deconvolution(inner, filters, kernel, stride), _normalise(filters), nn.ReLU()]
            inner = filters
        filters, kernel, stride, _ = deconvolutions[-1]
        layers += [_deconvolution(inner, filters, kernel, stride), nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        self.space_to_depth = side >= SMALL_FRAME
        if side >= SMALL_FRAME:
            self.cpu_chunk = CPU_CHUNK

    def forward(self, latents: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        if self.space_to_depth and (latents.is_cuda or compute_dtype is not None):
            return self.forward_space_to_depth(latents, compute_dtype)
        return self.layers(latents)

    def forward_space_to_depth(self, latents: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same states, faster on large images. Activations and kernels have the compute dtype, batch statistics
        and the result float32."""
        compute_dtype = compute_dtype or latents.dtype
        layers: list[Any] = list(self.layers)
        dense, shape, normalise, _, *hidden, last, squash = layers
        x = functional.linear(latents.to(compute_dtype), dense.weight.to(compute_dtype), dense.bias.to(compute_dtype))
        x = torch.relu(_normalised(shape(x), normalise, 1))
        *strided, (to_depth, last_normalise, _) = zip(*[iter(hidden)] * 3, strict=True)
        for layer, normalise, _ in strided:  # the zeros that would fill up their kernels cost more than this form saves
            x = torch.relu(_normalised(self._strided(layer, x), normalise, 1))
        s: int = to_depth.stride[0]
        x = deconv2d_to_depth(x, *self._cast(to_depth, compute_dtype), s, to_depth.padding[0])
        x = torch.relu(_normalised(x, last_normalise, s))
        images = depth_to_space(deconv2d_between_depths(x, last.weight.to(compute_dtype), s, 2), 2 * s)
        return squash(images.to(latents.dtype) + last.bias[:, None, None])

    def _strided(self, layer: nn.ConvTranspose2d, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self._cast(layer, x.dtype)
        return functional.conv_transpose2d(
            x,
            channels_last(weight),
            bias,
            stride=layer.stride[0],
            padding=int(layer.padding[0]),
            output_padding=layer.output_padding[0],
        )

    def _cast(self, layer: nn.ConvTranspose2d, compute_dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and biases of a layer before batch normalisation. In training, normalisation cancels the biases, so
        their gradient is zero; detaching them saves its slow computation."""
        assert layer.bias is not None
        weight, bias = layer.weight.to(compute_dtype), layer.bias.to(compute_dtype)
        return weight, bias.detach() if self.training else bias

    def to_states(self, outputs: torch.Tensor) -> torch.Tensor:
        return unscale(outputs)

    def to_inputs(self, states: torch.Tensor, unit_noise: torch.Tensor, amplitude: float) -> torch.Tensor:
        return rescale(noisy(states, unit_noise, amplitude))

    def finish(self, states: torch.Tensor) -> torch.Tensor:
        return states.round_()

    def initialise(self, rng: torch.Generator) -> None:
        initialise_adversarial(self, rng)


@dataclass(frozen=True)
class FittedGAN(FittedGenerator):
    """The generator network; the discriminator is discarded after training."""

    network: StateGenerator
    compute_dtype: torch.dtype | None = None  # of sampling; None means float32

    @classmethod
    def of(cls, network: StateGenerator, context: Context) -> FittedGAN:
        """Samples in the compute dtype on a CPU, where that takes a third of the time; a GPU needs only seconds."""
        return cls(network.eval(), context.compute_dtype if context.device.type == "cpu" else None)

    def sample(self, count: int, rng: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        return self.network.sample(count, rng, chunk, self.compute_dtype)

    def state(self) -> dict[str, torch.Tensor]:
        return state_tensors(self.network)


def initialise_adversarial(network: nn.Module, rng: torch.Generator) -> None:
    """Weights N(0, 0.02) and zero biases, for both networks."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02, generator=rng)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
