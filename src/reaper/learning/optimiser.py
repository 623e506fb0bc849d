"""Optimisers over flat buffers: all weights of a network are one vector, all gradients another.

So a step is a handful of operations whatever the number of layers, and copying an agent is one copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from reaper.paper.settings import GeneratorSettings, OptimiserSettings


def _axes_by_stride(tensor: torch.Tensor) -> list[int]:
    return sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))


class FlatWeights:
    """Rebinds a network's parameters and gradients to views of two flat vectors."""

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        self.network, self.parameters = network, parameters
        self.names = [name for name, _ in network.named_parameters()]
        self.values = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradients = torch.zeros_like(self.values)
        keep_layout = getattr(network, "layout", torch.contiguous_format) == torch.channels_last
        olds = [p.detach() if keep_layout else p.detach().contiguous() for p in parameters]
        self.shapes = [old.shape for old in olds]
        self.orders = [_axes_by_stride(old) for old in olds]  # outermost in memory first
        for p, old, value, gradient in zip(
            parameters, olds, self.views(self.values), self.views(self.gradients), strict=True
        ):
            p.data, p.grad = value, gradient
            p.data.copy_(old)

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """A flat vector as tensors of the parameters' shapes."""
        parts = flat.split([shape.numel() for shape in self.shapes])
        return [
            part.view([shape[axis] for axis in order]).permute([order.index(axis) for axis in range(len(order))])
            for part, shape, order in zip(parts, self.shapes, self.orders, strict=True)
        ]

    def flat(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """The inverse: tensors of the parameters' shapes as one vector, in the order in which it lies in memory."""
        return torch.cat([t.permute(order).reshape(-1) for t, order in zip(tensors, self.orders, strict=True)])

    def copy_from(self, other: FlatWeights) -> None:
        self.values.copy_(other.values)

    def state(self) -> dict[str, Any]:
        return {"values": self.values, "buffers": dict(self.network.named_buffers())}

    def restore(self, state: dict[str, Any]) -> None:
        self.values.copy_(state["values"])
        for name, buffer in self.network.named_buffers():
            buffer.copy_(state["buffers"][name])


def clip_global_norm(gradients: torch.Tensor, largest_norm: float) -> torch.Tensor:
    """TensorFlow's clip_by_global_norm, in place: g * largest / max(norm, largest)."""
    return gradients.mul_(largest_norm / gradients.norm().clamp(min=largest_norm))


class Optimiser(ABC):
    """Takes one step along the gradients of flat weights."""

    def __init__(self, weights: FlatWeights) -> None:
        self.weights = weights

    @abstractmethod
    def step(self, gradients: torch.Tensor) -> None: ...

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The tensors that a step changes, beside the weights."""

    def restore(self, state: dict[str, Any]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class RMSProp(Optimiser):
    """As TensorFlow has it: epsilon inside the square root, the accumulator starting at one, no momentum."""

    def __init__(self, weights: FlatWeights, learning_rate: float, decay: float, epsilon: float) -> None:
        super().__init__(weights)
        self.learning_rate, self.decay, self.epsilon = learning_rate, decay, epsilon
        self.mean_square = torch.ones_like(weights.values)

    def step(self, gradients: torch.Tensor) -> None:
        g = gradients
        self.mean_square.mul_(self.decay).addcmul_(g, g, value=1 - self.decay)
        self.weights.values.addcmul_(g, (self.mean_square + self.epsilon).rsqrt_(), value=-self.learning_rate)

    def state(self) -> dict[str, Any]:
        return {"mean_square": self.mean_square}


class Adam(Optimiser):
    """Adam (Kingma and Ba), with the bias corrections kept as tensors so that a step can be captured."""

    def __init__(
        self, weights: FlatWeights, learning_rate: float, first_decay: float, second_decay: float, epsilon: float
    ) -> None:
        super().__init__(weights)
        self.learning_rate, self.epsilon = learning_rate, epsilon
        self.first_decay, self.second_decay = first_decay, second_decay
        self.mean = torch.zeros_like(weights.values)
        self.mean_square = torch.zeros_like(weights.values)
        self.powers = torch.ones(2, dtype=torch.float64, device=weights.values.device)  # decays to the power of steps
        self._decays = torch.tensor([first_decay, second_decay], dtype=torch.float64, device=weights.values.device)

    def step(self, gradients: torch.Tensor) -> None:
        g = gradients
        self.powers.mul_(self._decays)
        first, second = (1 - self.powers).float()
        self.mean.mul_(self.first_decay).add_(g, alpha=1 - self.first_decay)
        self.mean_square.mul_(self.second_decay).addcmul_(g, g, value=1 - self.second_decay)
        scale = (self.mean_square / second).sqrt_().add_(self.epsilon).mul_(first)
        self.weights.values.addcdiv_(self.mean, scale, value=-self.learning_rate)

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean, "mean_square": self.mean_square, "powers": self.powers}


def agent_optimiser(settings: OptimiserSettings, weights: FlatWeights) -> Optimiser:
    """The optimiser of a DQN: the paper's RMSProp, or Adam at scales that say so."""
    if settings.name == "adam":
        return Adam(weights, settings.learning_rate, 0.9, 0.999, settings.epsilon)
    return RMSProp(weights, settings.learning_rate, settings.decay, settings.epsilon)


def adversarial_optimiser(settings: GeneratorSettings, weights: FlatWeights) -> Optimiser:
    """The optimiser of generator and discriminator: Adam (appendix GAN)."""
    return Adam(weights, settings.learning_rate, settings.first_decay, settings.second_decay, settings.epsilon)
