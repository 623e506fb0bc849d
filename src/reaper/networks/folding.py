"""Strided convolutions and deconvolutions on folded frames: the same sums, in shapes that a GPU multiplies quickly.

To fold frames by s is to make every s x s block of pixels one pixel of s*s times the channels (row, column, channel).
A convolution of stride s then has stride one and a smaller kernel; a deconvolution of stride s becomes a convolution
whose output is folded. Kernels are filled up with zeros where they do not divide. `p` is the padding on each side.
"""

from __future__ import annotations

import torch
from torch.nn import functional

CHANNELS_LAST = torch.channels_last


def fold(images: torch.Tensor, s: int) -> torch.Tensor:
    """(N, C, sH, sW) -> (N, s*s*C, H, W)."""
    n, c, h, w = images.shape
    blocks = images.permute(0, 2, 3, 1).reshape(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, h // s, w // s, s * s * c).permute(0, 3, 1, 2)


def unfold(folded: torch.Tensor, s: int) -> torch.Tensor:
    """The inverse: (N, s*s*C, H, W) -> (N, C, sH, sW)."""
    n, c, h, w = folded.shape
    blocks = folded.permute(0, 2, 3, 1).reshape(n, h, w, s, s, c // (s * s)).permute(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, s * h, s * w, c // (s * s)).permute(0, 3, 1, 2)


def _widened(weight: torch.Tensor, s: int, front: tuple[int, int]) -> tuple[torch.Tensor, int]:
    """A kernel (A, B, K, K) with zeros in front, and behind up to a multiple of s: (A, B, m, s, m, s), and m."""
    a, b, kernel, _ = weight.shape
    m = -(-(kernel + max(front)) // s)
    behind = [s * m - kernel - before for before in front]
    wide = functional.pad(weight, (front[1], behind[1], front[0], behind[0]))
    return wide.reshape(a, b, m, s, m, s), m


def folds(convolution: torch.nn.Conv2d) -> bool:
    """Whether `folded_convolution` can stand in for it."""
    kernel, stride, padding = convolution.kernel_size[0], convolution.stride[0], convolution.padding[0]
    return stride > 1 and (kernel % stride == 0 if padding == 0 else _same(kernel, stride, int(padding)))


def _same(kernel: int, s: int, p: int) -> bool:
    """Whether the folded kernel reaches as far to the left as to the right, so that the side is divided by just s."""
    reach = -(-p // s)
    return -(-(kernel + s * reach - p) // s) == 2 * reach + 1


def _folded_kernels(weight: torch.Tensor, s: int, p: int) -> tuple[torch.Tensor, int]:
    """Kernels for frames folded by s, and how far they reach: (F, C, K, K) -> (F, s*s*C, m, m). Pixel s*j + r meets
    kernel place s*(j - o) + r + p of output o."""
    reach = -(-p // s)
    kernels, m = _widened(weight, s, (s * reach - p, s * reach - p))  # (F, C, m, s, m, s)
    return kernels.permute(0, 3, 5, 1, 2, 4).reshape(len(weight), -1, m, m), reach


def folded_convolution(
    images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, s: int, p: int = 0
) -> torch.Tensor:
    """A convolution of stride s on frames whose side s divides: (N, C, H, W) -> (N, F, H/s, W/s), or less without
    padding."""
    kernels, reach = _folded_kernels(weight, s, p)
    folded, kernels = _eights(fold(images, s)), _eights(kernels)
    return functional.conv2d(folded, kernels.contiguous(memory_format=CHANNELS_LAST), bias, padding=reach)


def _eights(channels: torch.Tensor) -> torch.Tensor:
    """Filled up with zeros to a multiple of eight channels, as matrix units want them."""
    lacking = -channels.shape[1] % 8
    return functional.pad(channels, (0, 0, 0, 0, 0, lacking)) if lacking else channels


def slopes_of_folded_convolution(slopes: torch.Tensor, weight: torch.Tensor, s: int, p: int) -> torch.Tensor:
    """The derivatives of a sum with respect to the images, from those with respect to the convolution's outputs:
    (N, F, H/s, W/s) -> (N, C, H, W)."""
    kernels, reach = _folded_kernels(weight, s, p)
    kernels = _eights(kernels).contiguous(memory_format=CHANNELS_LAST)
    folded = functional.conv_transpose2d(slopes, kernels, padding=reach)
    return unfold(folded[:, : s * s * weight.shape[1]], s)


def folded_deconvolution(
    images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, s: int, p: int
) -> torch.Tensor:
    """A deconvolution of stride s whose output, s times as large, stays folded: (N, C, H, W) -> (N, s*s*F, H, W).
    Pixel i meets kernel place s*(q - i) + r + p of output s*q + r."""
    reach = -(-p // s)
    kernels, m = _widened(weight, s, (s * reach - p, s * reach - p))  # (C, F, m, s, m, s)
    kernels = kernels.flip(2, 4).permute(3, 5, 1, 0, 2, 4).reshape(-1, len(weight), m, m)
    kernels, biases = kernels.contiguous(memory_format=CHANNELS_LAST), bias.repeat(s * s)
    return functional.conv2d(images, kernels, biases, padding=m - 1 - reach)


def deconvolution_between_folded(folded: torch.Tensor, weight: torch.Tensor, s: int) -> torch.Tensor:
    """A deconvolution of stride one, from frames folded by s to such frames: (N, s*s*C, H, W) -> (N, s*s*F, H, W). Its
    kernel reaches a multiple of s to either side, so that the folded one does too."""
    kernel = weight.flip(2, 3).transpose(0, 1)  # as a convolution: (F, C, K, K)
    filters, channels, side, _ = kernel.shape
    m = side // 2 // s * 2 + 1
    shifted = [_widened(kernel, s, (row, column))[0] for row in range(s) for column in range(s)]
    kernels = torch.stack(shifted).permute(0, 1, 4, 6, 2, 3, 5).reshape(s * s * filters, s * s * channels, m, m)
    return functional.conv2d(folded, kernels.contiguous(memory_format=CHANNELS_LAST), padding=m // 2)
