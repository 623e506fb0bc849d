"""One update: the loss it was given, backward, clip, step. Nothing else knows how an update is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reaper.learning.optimiser import FlatWeights, Optimiser, clip_global_norm
from reaper.randomness import Stream

Loss = Callable[[], torch.Tensor]  # draws its own batch and returns a scalar


class Batches:
    """Draws for several updates at once: what is frozen meanwhile (replay, target, teacher) is asked once, not once an
    update, and a network is far quicker on one large batch than on many small ones."""

    def __init__(
        self, draw: Callable[[int, Stream], tuple[torch.Tensor, ...]], batch_size: int, randomness: Stream
    ) -> None:
        self.draw, self.batch_size, self.randomness = draw, batch_size, randomness
        self.ready: list[tuple[torch.Tensor, ...]] = []

    def prepare(self, updates: int) -> None:
        drawn = self.draw(updates * self.batch_size, self.randomness)
        self.ready = list(zip(*(part.split(self.batch_size) for part in drawn), strict=True))

    def next(self) -> tuple[torch.Tensor, ...]:
        return self.ready.pop()

    def state(self) -> dict[str, Any]:
        return self.randomness.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.randomness.restore(state)


def descend(optimiser: Optimiser, largest_norm: float | None) -> None:
    """Clips the gradients and takes one step along them."""
    if largest_norm is not None:
        clip_global_norm(optimiser.weights.gradients, largest_norm)
    optimiser.step()


class Update:
    """Turns a loss into an update of flat weights."""

    def __init__(
        self,
        weights: FlatWeights,
        optimiser: Optimiser,
        loss: Loss,
        largest_norm: float | None = None,
        faster: Callable[[Callable[..., None]], Callable[..., None]] = lambda function: function,
    ) -> None:
        self.weights, self.optimiser, self.loss = weights, optimiser, loss
        self.descend, self.largest_norm = faster(descend), largest_norm

    def __call__(self) -> torch.Tensor:
        """Makes one update and returns its loss, still on the device."""
        self.weights.gradients.zero_()
        loss = self.loss()
        loss.backward(inputs=self.weights.parameters)  # and of no other network that the loss goes through
        with torch.no_grad():
            self.descend(self.optimiser, self.largest_norm)
        return loss.detach()
