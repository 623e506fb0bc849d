"""The learner: makes the updates of one agent step, one by one or as one CUDA graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from reaper.compute.compilation import skip_guards
from reaper.compute.cuda_graph import capture_graph
from reaper.compute.optimiser import FlatWeights, agent_optimiser
from reaper.compute.update import Batch, Loss, Update
from reaper.context import Context
from reaper.learning.best_weights import BestWeights
from reaper.state import Parts

FIRST_BATCHES = 4  # updates whose batches a GPU samples before it starts; it samples the others meanwhile


class BatchSource(Protocol):
    """Where the batches of updates come from."""

    parts: Parts  # what sampling changes, random number generators included

    @property
    def uses_weights(self) -> bool:
        """Whether batches depend on the weights in training; then all are sampled before the updates."""
        ...

    def sample(self, updates: int) -> list[Batch]:
        """One batch per update."""
        ...


class Learner:
    """Updates the weights of an agent by a loss."""

    def __init__(
        self, context: Context, weights: FlatWeights, *, loss: Loss, batches: BatchSource, best: BestWeights
    ) -> None:
        self.weights, self.batches, self.best = weights, batches, best
        self.optimiser = agent_optimiser(context.settings.optimiser, weights)
        self.update = Update(
            weights,
            self.optimiser,
            loss,
            max_grad_norm=context.settings.optimiser.max_grad_norm,
            compiles=context.compiles,
            compute_dtype=context.compute_dtype,
        )
        on_gpu = context.device.type == "cuda"
        self._captures = on_gpu and context.cuda_graphs
        self._skips_guards = context.compiles and not self._captures
        self._side_stream = torch.cuda.Stream() if on_gpu else None
        self.graphs: dict[int, Callable[[], None]] = {}  # number of updates -> their CUDA graph

    def learn(self, updates: int) -> None:
        """Makes so many updates."""
        if self._captures and updates not in self.graphs:
            changes = Parts(weights=self.weights, optimiser=self.optimiser, best=self.best, batches=self.batches.parts)
            self.graphs[updates] = capture_graph(lambda: self._make(updates), changes)
        if updates in self.graphs:
            self.graphs[updates]()
        else:
            self._make(updates)
        self.best.losses += updates

    def _make(self, updates: int) -> None:
        with contextlib.ExitStack() as after_first:
            for number, batch in enumerate(self._sample(updates)):
                if number == 1 and self._skips_guards:
                    after_first.enter_context(skip_guards())
                self.best.loss_sum += self.update(*batch)

    def _sample(self, updates: int) -> Iterator[Batch]:
        """On a GPU most batches, with their targets, are sampled on a second stream during the first updates."""
        if self._side_stream is None or updates <= FIRST_BATCHES or self.batches.uses_weights:
            yield from self.batches.sample(updates)
            return
        first = self.batches.sample(FIRST_BATCHES)
        self._side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side_stream):
            rest = self.batches.sample(updates - FIRST_BATCHES)
        yield from first
        torch.cuda.current_stream().wait_stream(self._side_stream)
        yield from rest
