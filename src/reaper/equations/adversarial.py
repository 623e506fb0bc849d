"""The GAN: what its discriminator is shown, and the losses of its two networks (WGAN-GP with a drift term)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .registry import equation


@equation("gan-data")
def gan_data(new_items: Tensor, pseudo_items: Tensor, r: Tensor, tasks: int | Tensor) -> Tensor:
    """gan-data: item j is the new one where r_j < 1 / T, else the pseudo-item.

    new_items (N, ...), pseudo_items (N, ...), r (N,) uniform in [0, 1), tasks T a number or 0-d tensor -> (N, ...).
    """
    return torch.where(_per_item(r < 1 / tasks, new_items), new_items, pseudo_items)


@equation("disc-loss")
def disc_loss(
    real_scores: Tensor, fake_scores: Tensor, gradient_norms: Tensor, penalty: float = 10.0, drift: float = 1e-6
) -> Tensor:
    """disc-loss: fake - real + lambda (norm - 1)^2 + drift (real^2 + fake^2), averaged over the batch.

    real_scores (N,), fake_scores (N,), gradient_norms (N,) -> scalar.
    """
    wasserstein = fake_scores - real_scores
    gradient_penalty = penalty * (gradient_norms - 1).square()
    drift_term = drift * real_scores.square() + drift * fake_scores.square()
    return (wasserstein + gradient_penalty + drift_term).mean()


@equation("gen-loss")
def gen_loss(fake_scores: Tensor) -> Tensor:
    """gen-loss: the negative score of generated items, averaged over the batch.

    fake_scores (N,) -> scalar.
    """
    return -fake_scores.mean()


def score_gradients(discriminator: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """The gradient in disc-loss: that of each item's score with respect to the item.

    points (N, ...) -> (N, ...), differentiable with respect to the discriminator's weights only. The discriminator must
    score items independently of each other (no batch normalisation).
    """
    return torch.func.grad(lambda items: discriminator(items).sum())(points.detach())


def gradient_norms(gradients: Tensor) -> Tensor:
    """The norm in disc-loss: the Euclidean norm of each item's score gradient.

    gradients (N, ...) -> (N,).
    """
    return torch.linalg.vector_norm(gradients.flatten(start_dim=1), dim=1)


def interpolate(real: Tensor, fake: Tensor, epsilon: Tensor) -> Tensor:
    """The points x-hat of disc-loss: epsilon * real + (1 - epsilon) * fake.

    real (N, ...), fake (N, ...), epsilon (N,) uniform in [0, 1) -> (N, ...).
    """
    weight = _per_item(epsilon, real)
    return weight * real + (1 - weight) * fake


def rescale(pixels: Tensor) -> Tensor:
    """f(x) = 2 (x / 255 - 0.5): raw pixels in [0, 255], uint8 or float, to floats in [-1, 1], the range of Tanh.

    pixels (...) -> (...).
    """
    return 2 * (pixels / 255 - 0.5)


def unscale(images: Tensor) -> Tensor:
    """The inverse of `rescale`: [-1, 1] to raw pixels in [0, 255], still floats.

    images (...) -> (...).
    """
    return 255 * (images / 2 + 0.5)


def noisy(pixels: Tensor, unit_noise: Tensor, amplitude: float = 10.0) -> Tensor:
    """Raw pixels plus U(-10, 10) noise, before `rescale`; not clipped, since the paper does not mention clipping.

    pixels (N, ...), unit_noise (N, ...) uniform in [-1, 1] -> (N, ...) floats.
    """
    return pixels + amplitude * unit_noise


def _per_item(values: Tensor, items: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (items.ndim - 1))  # (N,) -> (N, 1, ..., 1), to broadcast with (N, ...)
