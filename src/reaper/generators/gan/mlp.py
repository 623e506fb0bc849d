"""Generator and discriminator for vectors: two hidden layers of 256 units each."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import nn

from reaper.equations import noisy, score_gradients
from reaper.generators.gan.state_generator import StateGenerator
from reaper.networks.mlp import HIDDEN
from reaper.tasks.observation import ObservationSpec


class VectorGenerator(StateGenerator):
    """Latent variables (N, latent_size) -> scaled vectors (N, features). The output layer is linear: scaled vectors
    (tasks/scaling.py) have no bounds."""

    dtype = torch.float32

    def __init__(self, observation: ObservationSpec, latent_size: int, width: Fraction | int = 1) -> None:
        super().__init__()
        self.latent_size, self.state_shape = latent_size, observation.shape
        self.layers = _mlp(latent_size, max(1, int(HIDDEN * width)), observation.size, nn.ReLU())

    def forward(self, latents: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        return self.layers(latents)

    def to_states(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs

    def to_inputs(self, states: torch.Tensor, unit_noise: torch.Tensor, amplitude: float) -> torch.Tensor:
        return noisy(states, unit_noise, amplitude * 2 / 255)

    def finish(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def initialise(self, rng: torch.Generator) -> None:
        _initialise(self, rng)


class VectorDiscriminator(nn.Module):
    """Scaled vectors (N, features) -> one score per vector (N,)."""

    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__()
        self.layers = _mlp(observation.size, HIDDEN, 1, nn.LeakyReLU(0.2))

    def forward(
        self, states: torch.Tensor, compute_dtype: torch.dtype | None = None, input_gradients: bool = False
    ) -> torch.Tensor:
        """Scores (N,); with `input_gradients` the gradient of each score with respect to its state instead."""
        return score_gradients(self.layers, states) if input_gradients else self.layers(states).squeeze(1)

    def initialise(self, rng: torch.Generator) -> None:
        _initialise(self, rng)


def _mlp(inputs: int, hidden: int, outputs: int, rectifier: nn.Module) -> nn.Sequential:
    layers = [nn.Linear(inputs, hidden), rectifier, nn.Linear(hidden, hidden), rectifier, nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers)


def _initialise(network: nn.Module, rng: torch.Generator) -> None:
    """He initialisation. The N(0, 0.02) of the image networks relies on batch normalisation, which these do without."""
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.kaiming_uniform_(parameter, nonlinearity="relu", generator=rng)
