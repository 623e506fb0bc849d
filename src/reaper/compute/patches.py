"""Convolutions with stride equal to kernel size, as one matrix product: the same sums at half the cost on a CPU."""

from __future__ import annotations

import torch
from torch import nn


class PatchConvolution(nn.Conv2d):
    """A convolution with stride equal to its kernel and no padding: (N, C, H, W) -> (N, F, H/k, W/k)."""

    def __init__(self, channels: int, filters: int, kernel: int) -> None:
        super().__init__(channels, filters, kernel, kernel)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        n, c, h, w = input.shape
        k = self.kernel_size[0]
        # Channels last inside, so that patches are copied in long runs.
        patches = input.permute(0, 2, 3, 1).reshape(n, h // k, k, w // k, k, c).transpose(2, 3).reshape(-1, k * k * c)
        weight = self.weight.permute(2, 3, 1, 0).reshape(k * k * c, -1)
        outputs = torch.addmm(self.bias, patches, weight)  # pyright: ignore[reportArgumentType]
        return outputs.view(n, h // k, w // k, -1).permute(0, 3, 1, 2)


class PatchDeconvolution(nn.ConvTranspose2d):
    """A transposed convolution with stride equal to its kernel and no padding: (N, C, H, W) -> (N, F, kH, kW)."""

    def __init__(self, channels: int, filters: int, kernel: int) -> None:
        super().__init__(channels, filters, kernel, kernel)

    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        n, c, h, w = input.shape
        k, filters = self.kernel_size[0], self.out_channels
        pixels = input.permute(0, 2, 3, 1).reshape(-1, c)
        weight = self.weight.permute(0, 2, 3, 1).reshape(c, -1)
        patches = (pixels @ weight).view(n, h, w, k, k, filters).transpose(2, 3)
        images = patches.reshape(n, h * k, w * k, filters).add(self.bias)  # pyright: ignore[reportArgumentType]
        return images.permute(0, 3, 1, 2)
