"""What every generator network of a GAN shares, whatever kind of states it generates."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import nn

from reaper.memory.items import empty_states


class StateGenerator(nn.Module):
    """Latent variables (N, latent_size) in [-1, 1] -> outputs (N, *state_shape), on the discriminator's scale.

    `forward(latents, compute_dtype=None)`. Subclasses say how outputs and states of the replay are related.
    """

    latent_size: int
    state_shape: tuple[int, ...]
    dtype: torch.dtype  # of states
    cpu_chunk = 1000  # states computed at once on a CPU, at most

    @abstractmethod
    def to_states(self, outputs: torch.Tensor) -> torch.Tensor:
        """Outputs as states on the scale of the replay, still floats and differentiable."""

    @abstractmethod
    def to_inputs(self, states: torch.Tensor, unit_noise: torch.Tensor, amplitude: float) -> torch.Tensor:
        """What the discriminator sees of states: with noise, and on the scale of the outputs. The noise is U(-1, 1);
        its amplitude is on the scale of pixels, of which 255 are 2 on the scale of the outputs."""

    @abstractmethod
    def finish(self, states: torch.Tensor) -> torch.Tensor:
        """States as they are stored: rounded, where they are whole numbers. In place."""

    @abstractmethod
    def initialise(self, rng: torch.Generator) -> None:
        """Draws its weights."""

    def sample_latents(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """z = U(-1, 1)."""
        return torch.rand(count, self.latent_size, generator=rng, device=rng.device) * 2 - 1

    @torch.no_grad()
    def sample(
        self, count: int, rng: torch.Generator, chunk: int = 1000, compute_dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Generates states in evaluation mode, so that a state does not depend on its neighbours in a batch."""
        self.eval()
        chunk = min(chunk, self.cpu_chunk) if rng.device.type == "cpu" else chunk
        states = empty_states(count, self.state_shape, rng.device, self.dtype)
        for part in states.split(chunk):
            part.copy_(self.finish(self.to_states(self(self.sample_latents(len(part), rng), compute_dtype))))
        return states
