"""States as sequences of tokens: each frame is cut into square patches, and a token is a place in a vocabulary of them.

A sequence goes from the top left to the bottom right, and at each place from the oldest frame to the newest.
"""

from __future__ import annotations

import torch

from reaper.randomness import new_rng

CHUNK = 4096  # patches that are compared with the vocabulary at a time


def to_patches(states: torch.Tensor, side: int) -> torch.Tensor:
    """States (N, C, H, W) -> patches (N, H/side * W/side * C, side * side)."""
    n, c, h, w = states.shape
    cut = states.reshape(n, c, h // side, side, w // side, side)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, side * side)


def from_patches(patches: torch.Tensor, shape: tuple[int, ...], side: int) -> torch.Tensor:
    """The inverse of `to_patches`, for states of this shape."""
    c, h, w = shape
    cut = patches.reshape(-1, h // side, w // side, c, side, side)
    return cut.permute(0, 3, 1, 4, 2, 5).reshape(-1, c, h, w)


def fingerprints(patches: torch.Tensor) -> torch.Tensor:
    """(..., pixels) -> (...): 64-bit numbers that are equal for equal patches, and for others with no real chance."""
    rng = new_rng("cpu", "fingerprints of patches")
    factors = torch.randint(-(2**62), 2**62, patches.shape[-1:], generator=rng).to(patches.device)
    return (patches.long() * factors).sum(dim=-1)


def fit_vocabulary(patches: torch.Tensor, weights: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The most frequent patches (at most `size`, pixels), and the tokens (N, L) of patches (N, L, pixels).

    `weights` (N,) say how much each state counts. A patch that is not in the vocabulary gets the token of the most
    similar one.
    """
    flat = patches.reshape(-1, patches.shape[-1])
    _, kinds = fingerprints(flat).unique(return_inverse=True)
    count = int(kinds.max()) + 1
    frequency = torch.zeros(count, device=flat.device)
    frequency.index_add_(0, kinds, weights.repeat_interleave(patches.shape[1]))
    examples = torch.empty(count, dtype=torch.long, device=flat.device)
    examples[kinds] = torch.arange(len(kinds), device=flat.device)
    order = frequency.argsort(descending=True, stable=True)
    vocabulary = flat[examples[order[:size]]]
    tokens = torch.empty_like(order)  # of each kind of patch
    tokens[order[:size]] = torch.arange(len(vocabulary), device=flat.device)
    tokens[order[size:]] = nearest(flat[examples[order[size:]]], vocabulary)
    return vocabulary, tokens[kinds].view(patches.shape[:2])


def nearest(patches: torch.Tensor, vocabulary: torch.Tensor) -> torch.Tensor:
    """The token of the most similar patch of the vocabulary, by squared differences."""
    known = vocabulary.float()
    found = [torch.cdist(part.float(), known).argmin(dim=1) for part in patches.split(CHUNK)]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.long, device=patches.device)
