"""Strided convolutions on folded frames: the same sums, in a shape that a GPU multiplies quickly."""

from __future__ import annotations

import torch
from torch.nn import functional


def folds(convolution: torch.nn.Conv2d) -> bool:
    """Whether `folded_convolution` can stand in for it."""
    kernel, stride = convolution.kernel_size[0], convolution.stride[0]
    return stride > 1 and kernel % stride == 0 and convolution.padding == (0, 0)


def folded_convolution(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, s: int) -> torch.Tensor:
    """A convolution whose kernel is a multiple of its stride s: every s x s block of pixels becomes one pixel of s*s
    times the channels, the kernel shrinks by s, and the stride is one. (N, C, H, W) -> (N, F, H/s - k + 1, ...)."""
    (n, c, h, w), (filters, _, kernel, _) = images.shape, weight.shape
    k = kernel // s
    blocks = images.permute(0, 2, 3, 1).reshape(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
    folded = blocks.reshape(n, h // s, w // s, s * s * c).permute(0, 3, 1, 2)
    kernels = weight.reshape(filters, c, k, s, k, s).permute(0, 3, 5, 1, 2, 4).reshape(filters, -1, k, k)
    return functional.conv2d(folded, kernels.contiguous(memory_format=torch.channels_last), bias)
