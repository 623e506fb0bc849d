"""One update: forward, loss, gradients, clipping, optimiser step. Nothing else knows how an update is run.

A loss is a pure function of the weights and of a batch sampled before. The same function is differentiated eagerly by
autograd, or traced together with the optimiser into one compiled function, or that function is captured many times over
in a CUDA graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reaper.compute.compilation import compiled
from reaper.compute.optimiser import FlatWeights, Optimiser, Slices, clip_global_norm
from reaper.randomness import RNG
from reaper.state import State

Batch = tuple[Any, ...]  # tensors, or tuples of them
Forward = Callable[..., torch.Tensor]  # states -> outputs of the network in training
Loss = Callable[..., torch.Tensor]  # (forward, weights, *batch) -> a scalar


class BatchSampler:
    """Samples the batches of several updates at once.

    What does not change meanwhile (replay, target network, teacher) is evaluated once for all of them: a network is far
    faster on one large batch than on many small ones.
    """

    def __init__(self, sample: Callable[[int, RNG], tuple[torch.Tensor, ...]], batch_size: int, rng: RNG) -> None:
        self._sample, self.batch_size, self.rng = sample, batch_size, rng

    def sample(self, updates: int) -> list[Batch]:
        """One batch per update. The last ones sampled come first; changing that would change published results."""
        return split_batches(self._sample(updates * self.batch_size, self.rng), self.batch_size)[::-1]

    def state(self) -> State:
        return self.rng.state()

    def restore(self, state: State) -> None:
        self.rng.restore(state)


def split_batches(tensors: Sequence[torch.Tensor], batch_size: int) -> list[Batch]:
    return list(zip(*(tensor.split(batch_size) for tensor in tensors), strict=True))


class Update:
    """Turns a loss into an update of flat weights.

    `concurrent_gradients` (compiled updates on a GPU only) suits batches too small to fill the GPU.
    """

    def __init__(
        self,
        weights: FlatWeights,
        optimiser: Optimiser,
        loss: Loss,
        *,
        max_grad_norm: float | None = None,
        compiles: bool = False,
        compute_dtype: torch.dtype | None = None,
        concurrent_gradients: bool = True,
    ) -> None:
        self.weights, self.optimiser, self.loss, self.max_grad_norm = weights, optimiser, loss, max_grad_norm
        self.compute_dtype = compute_dtype
        device = weights.values.device
        # A GPU is fastest on one long vector. On a CPU, concatenating gradients takes half as long as the step itself.
        self.slices = optimiser.slices() if compiles and device.type == "cpu" else None
        self.run = self.eager
        if compiles:
            self.run = compiled(self.functional, device, self.eager, concurrent_gradients)

    def __call__(self, *batch: Any) -> torch.Tensor:
        """Makes one update and returns its loss, still on the device."""
        return self.run(*batch)

    def eager(self, *batch: Any) -> torch.Tensor:
        """Differentiates by autograd, operation by operation."""
        weights, dtype = self.weights, self.compute_dtype
        weights.gradients.zero_()
        forward = functools.partial(weights.network, compute_dtype=dtype) if dtype else weights.network
        loss = self.loss(forward, weights.parameters, *batch)
        loss.backward(inputs=weights.parameters)  # and of no other network that the loss passes through
        with torch.no_grad():
            self.descend([weights.gradients])
        return loss.detach()

    def functional(self, *batch: Any) -> torch.Tensor:
        """The same with no side effects except on flat vectors, so that it can be traced as a whole."""
        weights = self.weights

        def loss_of(parameters: list[torch.Tensor]) -> torch.Tensor:
            named = dict(zip(weights.names, parameters, strict=True))

            def forward(states: torch.Tensor, **options: Any) -> torch.Tensor:
                options |= {"compute_dtype": self.compute_dtype} if self.compute_dtype else {}
                return torch.func.functional_call(weights.network, named, (states,), options)

            return self.loss(forward, parameters, *batch)

        values = [part[0] for part in self.slices] if self.slices else weights.views(weights.values)
        gradients, loss = torch.func.grad_and_value(loss_of)(values)
        with torch.no_grad():
            self.descend(gradients if self.slices else [weights.flat(gradients)], self.slices)
        return loss

    def descend(self, gradients: list[torch.Tensor], slices: list[Slices] | None = None) -> None:
        if self.max_grad_norm is not None:
            clip_global_norm(gradients, self.max_grad_norm)
        self.optimiser.step(gradients, slices)
