"""Strided convolutions as convolutions of stride one, by space-to-depth: the same sums in shapes a GPU computes faster.

Space-to-depth by s turns every s x s block of pixels into one pixel with s*s times the channels (row, column, channel):

    +--+--+--+--+            +----+----+
    |a |b |c |d |   s = 2    |abef|cdgh|      each cell: channels of one pixel
    +--+--+--+--+  ------->  +----+----+
    |e |f |g |h |
    +--+--+--+--+

A convolution of stride s then has stride one and a smaller kernel; a transposed convolution of stride s becomes a
convolution whose output is still blocked. Kernels are padded with zeros where s does not divide them. `p` is the
padding on each side, and images are square. Gain on an H200: 5,639 instead of 4,568 DQN updates/s, both in bf16; for
the GAN 527 instead of 297 steps/s together with explicit input gradients.
"""

from __future__ import annotations

import torch
from torch.nn import functional

CHANNEL_MULTIPLE = 8  # tensor cores want multiples of it


def space_to_depth(images: torch.Tensor, s: int) -> torch.Tensor:
    """(N, C, sH, sW) -> (N, s*s*C, H, W)."""
    n, c, h, w = images.shape
    blocks = images.permute(0, 2, 3, 1).reshape(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, h // s, w // s, s * s * c).permute(0, 3, 1, 2)


def depth_to_space(blocked: torch.Tensor, s: int) -> torch.Tensor:
    """The inverse: (N, s*s*C, H, W) -> (N, C, sH, sW)."""
    n, c, h, w = blocked.shape
    blocks = blocked.permute(0, 2, 3, 1).reshape(n, h, w, s, s, c // (s * s)).permute(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, s * h, s * w, c // (s * s)).permute(0, 3, 1, 2)


def _pad_kernel(weight: torch.Tensor, s: int, m: int, front: tuple[int, int] = (0, 0)) -> torch.Tensor:
    """A kernel (A, B, K, K) padded with zeros in front, and behind up to s * m places: (A, B, m, s, m, s)."""
    a, b, kernel, _ = weight.shape
    behind = [s * m - kernel - before for before in front]
    return functional.pad(weight, (front[1], behind[1], front[0], behind[0])).reshape(a, b, m, s, m, s)


def pays_off(layer: torch.nn.Conv2d) -> bool:
    """Whether space-to-depth is faster: where kernels need zero padding, only for few input channels."""
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    return stride > 1 and (kernel % stride == 0 or layer.in_channels < CHANNEL_MULTIPLE)


def conv2d(layer: torch.nn.Conv2d, activations: torch.Tensor) -> torch.Tensor:
    """A layer's outputs, by space-to-depth where that is faster, in the dtype of its inputs."""
    weight = layer.weight.to(activations.dtype)
    bias = layer.bias.to(activations.dtype)  # pyright: ignore[reportOptionalMemberAccess]
    s, p = layer.stride[0], int(layer.padding[0])
    if pays_off(layer):
        return conv2d_space_to_depth(activations, weight, bias, s, p)
    return functional.conv2d(activations, channels_last(weight), bias, s, p)


def conv2d_input_gradient(layer: torch.nn.Conv2d, gradients: torch.Tensor) -> torch.Tensor:
    """The gradient with respect to a layer's inputs, from that with respect to its outputs:
    (N, F, H/s, W/s) -> (N, C, H, W)."""
    weight, s, p = layer.weight.to(gradients.dtype), layer.stride[0], int(layer.padding[0])
    if pays_off(layer):
        return conv2d_space_to_depth_input_gradient(gradients, weight, s, p)
    output_padding = s + 2 * p - weight.shape[-1]
    return functional.conv_transpose2d(gradients, channels_last(weight), None, s, p, output_padding)


def _blocked_kernels(weight: torch.Tensor, s: int) -> torch.Tensor:
    """Kernels for images blocked by s: (F, C, K, K) -> (F, s*s*C, m, m), channels padded to a multiple of eight."""
    m = -(-weight.shape[-1] // s)
    kernels = _pad_kernel(weight, s, m).permute(0, 3, 5, 1, 2, 4).reshape(len(weight), -1, m, m)
    return channels_last(_pad_channels(kernels))


def conv2d_space_to_depth(
    images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, s: int, p: int = 0
) -> torch.Tensor:
    """A convolution of stride s: (N, C, H, H) -> (N, F, O, O). Padding is part of the blocks: the first block begins p
    pixels before the image, and the last is the last that a kernel covers."""
    kernels = _blocked_kernels(weight, s)
    side, m = images.shape[-1], kernels.shape[-1]
    outputs = (side + 2 * p - weight.shape[-1]) // s + 1
    behind = s * (outputs + m - 1) - side - p
    if p or behind:
        images = functional.pad(images, (p, behind, p, behind))
    return functional.conv2d(_pad_channels(space_to_depth(images, s)), kernels, bias)


def _pad_channels(tensor: torch.Tensor) -> torch.Tensor:
    """Padded with zeros to a multiple of eight channels."""
    missing = -tensor.shape[1] % CHANNEL_MULTIPLE
    return functional.pad(tensor, (0, 0, 0, 0, 0, missing)) if missing else tensor


def channels_last(kernels: torch.Tensor) -> torch.Tensor:
    """The memory layout that tensor cores read."""
    return kernels.contiguous(memory_format=torch.channels_last)


def conv2d_space_to_depth_input_gradient(gradients: torch.Tensor, weight: torch.Tensor, s: int, p: int) -> torch.Tensor:
    """As `conv2d_input_gradient`: computed for the pixels of all blocks, then cropped to the image."""
    blocked = functional.conv_transpose2d(gradients, _blocked_kernels(weight, s))
    pixels = depth_to_space(blocked[:, : s * s * weight.shape[1]], s)
    side = s * gradients.shape[-1]
    return pixels[:, :, p : p + side, p : p + side]


def deconv2d_to_depth(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, s: int, p: int) -> torch.Tensor:
    """A transposed convolution of stride s whose output, s times as large, stays blocked:
    (N, C, H, W) -> (N, s*s*F, H, W). Input pixel i meets kernel place s*(q - i) + r + p of output pixel s*q + r."""
    reach = -(-p // s)
    before = s * reach - p
    m = -(-(weight.shape[-1] + before) // s)
    kernels = _pad_kernel(weight, s, m, (before, before))  # (C, F, m, s, m, s)
    kernels = kernels.flip(2, 4).permute(3, 5, 1, 0, 2, 4).reshape(-1, len(weight), m, m)
    return functional.conv2d(images, channels_last(kernels), bias.repeat(s * s), padding=m - 1 - reach)


def deconv2d_between_depths(blocked: torch.Tensor, weight: torch.Tensor, s: int, t: int) -> torch.Tensor:
    """A transposed convolution of stride one, from images blocked by s to images blocked by t*s, where t divides the
    side: (N, s*s*C, H, W) -> (N, t*s*t*s*F, H/t, W/t).

    The kernel reaches a multiple of s to either side, so that the blocked one does too. A larger t means more output
    channels per place; too few of them leave tensor cores idle.
    """
    kernel = weight.flip(2, 3).transpose(0, 1)  # as a convolution: (F, C, K, K)
    channels, reach = kernel.shape[1], kernel.shape[2] // 2 // s
    m, places = 2 * reach + t, range(t * s)
    shifted = [_pad_kernel(kernel, s, m, (row, column)) for row in places for column in places]
    kernels = torch.stack(shifted).permute(0, 1, 4, 6, 2, 3, 5).reshape(-1, s * s * channels, m, m)
    return functional.conv2d(blocked, channels_last(kernels), stride=t, padding=reach)
