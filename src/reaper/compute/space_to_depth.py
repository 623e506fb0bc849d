"""Strided convolutions and deconvolutions on folded frames: the same sums, in shapes that a GPU multiplies quickly.

To fold frames by s is to make every s x s block of pixels one pixel of s*s times the channels (row, column, channel).
A convolution of stride s then has stride one and a smaller kernel; a deconvolution of stride s becomes a convolution
whose output is folded. Kernels are filled up with zeros where they do not divide. `p` is the padding on each side.
Frames are square.
"""

from __future__ import annotations

import torch
from torch.nn import functional

FEW = 8  # channels; matrix units want multiples of it


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


def _widened(weight: torch.Tensor, s: int, m: int, front: tuple[int, int] = (0, 0)) -> torch.Tensor:
    """A kernel (A, B, K, K) with zeros in front, and behind up to s * m places: (A, B, m, s, m, s)."""
    a, b, kernel, _ = weight.shape
    behind = [s * m - kernel - before for before in front]
    return functional.pad(weight, (front[1], behind[1], front[0], behind[0])).reshape(a, b, m, s, m, s)


def folds(convolution: torch.nn.Conv2d) -> bool:
    """Whether folding pays: where kernels have to be filled up with zeros, it does for frames of few channels alone."""
    kernel, stride = convolution.kernel_size[0], convolution.stride[0]
    return stride > 1 and (kernel % stride == 0 or convolution.in_channels < FEW)


def convolve(layer: torch.nn.Conv2d, maps: torch.Tensor) -> torch.Tensor:
    """A layer's outputs, on folded frames where that is quicker; its weights rounded as its inputs are."""
    weight, bias = layer.weight.to(maps.dtype), layer.bias.to(maps.dtype)  # pyright: ignore[reportOptionalMemberAccess]
    s, p = layer.stride[0], int(layer.padding[0])
    if folds(layer):
        return folded_convolution(maps, weight, bias, s, p)
    return functional.conv2d(maps, laid_out(weight), bias, s, p)


def slopes_of_convolution(layer: torch.nn.Conv2d, slopes: torch.Tensor) -> torch.Tensor:
    """The derivatives of a sum with respect to a layer's inputs, from those with respect to its outputs, a stride's
    part of them: (N, F, H/s, W/s) -> (N, C, H, W)."""
    weight, s, p = layer.weight.to(slopes.dtype), layer.stride[0], int(layer.padding[0])
    if folds(layer):
        return slopes_of_folded_convolution(slopes, weight, s, p)
    more = s + 2 * p - weight.shape[-1]
    return functional.conv_transpose2d(slopes, laid_out(weight), None, s, p, more)


def _folded_kernels(weight: torch.Tensor, s: int) -> torch.Tensor:
    """Kernels for frames folded by s: (F, C, K, K) -> (F, s*s*C, m, m), filled up to eights of channels."""
    m = -(-weight.shape[-1] // s)
    kernels = _widened(weight, s, m).permute(0, 3, 5, 1, 2, 4).reshape(len(weight), -1, m, m)
    return laid_out(_eights(kernels))


def folded_convolution(
    images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, s: int, p: int = 0
) -> torch.Tensor:
    """A convolution of stride s: (N, C, H, H) -> (N, F, O, O). The padding is part of the blocks: the first begins p
    pixels in front of the frame, the last is the last that a kernel meets."""
    kernels = _folded_kernels(weight, s)
    side, m = images.shape[-1], kernels.shape[-1]
    outputs = (side + 2 * p - weight.shape[-1]) // s + 1
    behind = s * (outputs + m - 1) - side - p
    if p or behind:
        images = functional.pad(images, (p, behind, p, behind))
    return functional.conv2d(_eights(fold(images, s)), kernels, bias)


def _eights(channels: torch.Tensor) -> torch.Tensor:
    """Filled up with zeros to a multiple of eight channels, as matrix units want them."""
    lacking = -channels.shape[1] % FEW
    return functional.pad(channels, (0, 0, 0, 0, 0, lacking)) if lacking else channels


def laid_out(kernels: torch.Tensor) -> torch.Tensor:
    """Channels last, as matrix units read them."""
    return kernels.contiguous(memory_format=torch.channels_last)


def slopes_of_folded_convolution(slopes: torch.Tensor, weight: torch.Tensor, s: int, p: int) -> torch.Tensor:
    """As `slopes_of_convolution`: the pixels of all blocks, and of them those that are the frame's."""
    folded = functional.conv_transpose2d(slopes, _folded_kernels(weight, s))
    pixels = unfold(folded[:, : s * s * weight.shape[1]], s)
    side = s * slopes.shape[-1]
    return pixels[:, :, p : p + side, p : p + side]


def folded_deconvolution(
    images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, s: int, p: int
) -> torch.Tensor:
    """A deconvolution of stride s whose output, s times as large, stays folded: (N, C, H, W) -> (N, s*s*F, H, W).
    Pixel i meets kernel place s*(q - i) + r + p of output s*q + r."""
    reach = -(-p // s)
    before = s * reach - p
    m = -(-(weight.shape[-1] + before) // s)
    kernels = _widened(weight, s, m, (before, before))  # (C, F, m, s, m, s)
    kernels = kernels.flip(2, 4).permute(3, 5, 1, 0, 2, 4).reshape(-1, len(weight), m, m)
    return functional.conv2d(images, laid_out(kernels), bias.repeat(s * s), padding=m - 1 - reach)


def deconvolution_between_folded(folded: torch.Tensor, weight: torch.Tensor, s: int, t: int) -> torch.Tensor:
    """A deconvolution of stride one, from frames folded by s to frames folded by t times as much, where t divides the
    side: (N, s*s*C, H, W) -> (N, t*s*t*s*F, H/t, W/t). Its kernel reaches a multiple of s to either side, so that the
    folded one does too. A larger t has more outputs, of more products, for each place: few outputs leave a GPU's
    matrix units idle."""
    kernel = weight.flip(2, 3).transpose(0, 1)  # as a convolution: (F, C, K, K)
    channels, reach = kernel.shape[1], kernel.shape[2] // 2 // s
    m, places = 2 * reach + t, range(t * s)
    shifted = [_widened(kernel, s, m, (row, column)) for row in places for column in places]
    kernels = torch.stack(shifted).permute(0, 1, 4, 6, 2, 3, 5).reshape(-1, s * s * channels, m, m)
    return functional.conv2d(folded, laid_out(kernels), stride=t, padding=reach)
