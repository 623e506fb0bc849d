"""One update: draw, loss, gradients, clip, step. Nothing else knows how an update is run.

A loss is a pure function of the weights and of a batch that was drawn before. The same function is differentiated by
autograd as it stands, or traced together with the optimiser into one piece of machine code, or that piece recorded
many times over in a CUDA graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reaper.compute.compilation import compiled, compute_dtype_for
from reaper.compute.optimiser import FlatWeights, Optimiser, Place, clip_global_norm
from reaper.randomness import RNG

Batch = tuple[Any, ...]  # tensors, or tuples of them
Answer = Callable[..., torch.Tensor]  # states -> the outputs of the network in training
Loss = Callable[..., torch.Tensor]  # (answer, weights, *batch) -> a scalar


class Batches:
    """Draws for several updates at once: what is frozen meanwhile (replay, target, teacher) is asked once, not once an
    update, and a network is far quicker on one large batch than on many small ones."""

    def __init__(self, draw: Callable[[int, RNG], tuple[torch.Tensor, ...]], batch_size: int, rng: RNG) -> None:
        self.draw, self.batch_size, self.rng = draw, batch_size, rng

    def take(self, updates: int) -> list[Batch]:
        """The batches of the next updates; those drawn last come first, as in the runs that docs/results tells of."""
        return split(self.draw(updates * self.batch_size, self.rng), self.batch_size)[::-1]

    def state(self) -> dict[str, Any]:
        return self.rng.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.rng.restore(state)


def split(drawn: Sequence[torch.Tensor], batch_size: int) -> list[Batch]:
    return list(zip(*(part.split(batch_size) for part in drawn), strict=True))


class Update:
    """Turns a loss into an update of flat weights."""

    def __init__(
        self,
        weights: FlatWeights,
        optimiser: Optimiser,
        loss: Loss,
        max_grad_norm: float | None = None,
        compiles: bool = False,
        small: bool = True,
        rounds: bool = False,  # also if it is not compiled
    ) -> None:
        self.weights, self.optimiser, self.loss, self.max_grad_norm = weights, optimiser, loss, max_grad_norm
        device = weights.values.device
        self.rounding = compute_dtype_for(device) if compiles or rounds else None
        # A GPU is quickest on one long vector; on a CPU, joining the gradients takes half as long as the step itself.
        self.places = optimiser.places() if compiles and device.type == "cpu" else None
        self.run = self.step_by_step
        if compiles:
            self.run = compiled(self.as_one_function, device, self.step_by_step, small)

    def __call__(self, *batch: Any) -> torch.Tensor:
        """Makes one update and returns its loss, still on the device."""
        return self.run(*batch)

    def step_by_step(self, *batch: Any) -> torch.Tensor:
        weights = self.weights
        weights.gradients.zero_()
        answer = functools.partial(weights.network, compute_dtype=self.rounding) if self.rounding else weights.network
        loss = self.loss(answer, weights.parameters, *batch)
        loss.backward(inputs=weights.parameters)  # and of no other network that the loss goes through
        with torch.no_grad():
            self.descend([weights.gradients])
        return loss.detach()

    def as_one_function(self, *batch: Any) -> torch.Tensor:
        """The same without side effects but on flat vectors, so that it can be traced as a whole."""
        weights = self.weights

        def loss_of(parameters: list[torch.Tensor]) -> torch.Tensor:
            named = dict(zip(weights.names, parameters, strict=True))

            def answer(states: torch.Tensor, **how: Any) -> torch.Tensor:
                how |= {"compute_dtype": self.rounding} if self.rounding else {}
                return torch.func.functional_call(weights.network, named, (states,), how)

            return self.loss(answer, parameters, *batch)

        values = [place[0] for place in self.places] if self.places else weights.views(weights.values)
        gradients, loss = torch.func.grad_and_value(loss_of)(values)
        with torch.no_grad():
            self.descend(gradients if self.places else [weights.flat(gradients)], self.places)
        return loss

    def descend(self, gradients: list[torch.Tensor], places: list[Place] | None = None) -> None:
        if self.max_grad_norm is not None:
            clip_global_norm(gradients, self.max_grad_norm)
        self.optimiser.step(gradients, places)
