"""Items: states that stand for a task, stored or generated, raw or losslessly compressed."""

from __future__ import annotations

import zlib
from typing import Protocol

import numpy as np
import torch


class StateSource(Protocol):
    """Anything states of a task can be drawn from: a replay, stored items, a generator's dreams."""

    def sample_states(self, count: int, randomness: torch.Generator) -> torch.Tensor: ...

    def distinct_states(self, count: int, randomness: torch.Generator) -> torch.Tensor: ...


class Items:
    """An array of uint8 states (N, history, size, size), and what the previous agent answered to each."""

    def __init__(self, states: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        self.states, self.targets = states, targets

    def __len__(self) -> int:
        return len(self.states)

    def _draw(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        return torch.randint(len(self.states), (count,), generator=randomness, device=self.states.device)

    def sample_states(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        return self.states.index_select(0, self._draw(count, randomness))

    def sample(self, count: int, randomness: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.targets is not None, "these items have no targets"
        drawn = self._draw(count, randomness)
        return self.states.index_select(0, drawn), self.targets.index_select(0, drawn)

    def distinct_states(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        return self.states[torch.randperm(len(self), generator=randomness, device=self.states.device)[:count]]

    @torch.no_grad()
    def answered_by(self, network: torch.nn.Module, chunk: int = 1000) -> Items:
        """The same items with the network's outputs as targets: frozen, so computed once and not every update."""
        return Items(self.states, torch.cat([network(part) for part in self.states.split(chunk)]))


def compress(states: torch.Tensor) -> list[bytes]:
    """Each state on its own, so that any of them can be dropped; frames after the first as changes, which are mostly
    zero and pack better."""
    pixels = states.cpu().numpy()
    changes = pixels.copy()
    changes[:, 1:] = pixels[:, 1:] - pixels[:, :-1]  # uint8 arithmetic wraps around, both ways
    return [zlib.compress(state.tobytes(), 9) for state in changes]


def decompress(packed: list[bytes], state_shape: tuple[int, ...]) -> torch.Tensor:
    """The inverse of `compress`."""
    changes = np.frombuffer(b"".join(zlib.decompress(p) for p in packed), dtype=np.uint8).reshape(-1, *state_shape)
    return torch.from_numpy(np.cumsum(changes, axis=1, dtype=np.uint8))
