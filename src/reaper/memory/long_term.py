"""The long-term memory: the only thing that is passed from one task to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class LongTermMemory:
    """The agent's weights, and what its retention method stores."""

    agent: dict[str, torch.Tensor]
    tasks: tuple[str, ...]  # learnt so far, in order
    retained: dict[str, torch.Tensor] = field(default_factory=dict)  # generator, items or Fisher diagonals

    @property
    def bytes(self) -> int:
        """The paper's memory column: the size of all its tensors."""
        return sum(tensor_bytes(t) for t in (*self.agent.values(), *self.retained.values()))

    def part(self, prefix: str) -> dict[str, torch.Tensor]:
        """The retained tensors under `prefix.`, without the prefix."""
        return {name[len(prefix) + 1 :]: t for name, t in self.retained.items() if name.startswith(prefix + ".")}


def tensor_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
