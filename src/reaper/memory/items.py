"""Items: states that represent a task, stored or generated."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

RESERVED_BYTES = 3 * 2**30  # of a GPU, for the rest of a stage: networks, activations of a generator, CUDA graphs


class MappedHostMemory:
    """Pinned host memory that a GPU addresses directly (zero-copy): kernels fetch the rows they need over the bus."""

    def __init__(self, pinned: torch.Tensor) -> None:
        self.pinned = pinned  # has to live as long as the tensor made of it
        self.__cuda_array_interface__ = {
            "shape": tuple(pinned.shape),
            "typestr": pinned.numpy().dtype.str,
            "data": (pinned.data_ptr(), False),
            "version": 3,
        }


def empty_states(
    count: int, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.uint8
) -> torch.Tensor:
    """An uninitialised array of states (count, *shape). If a GPU has no room for it, it is in pinned host memory,
    and is used in the same way."""
    whole = (count, *shape)
    if device.type != "cuda" or fits_on_gpu(int(np.prod(whole)) * dtype.itemsize, free_bytes(device)):
        return torch.empty(whole, dtype=dtype, device=device)
    return torch.as_tensor(MappedHostMemory(torch.empty(whole, dtype=dtype, pin_memory=True)), device=device)


def fits_on_gpu(item_bytes: int, free: int) -> bool:
    """Whether items fit on a GPU alongside the rest of a stage."""
    return item_bytes + RESERVED_BYTES <= free


def free_bytes(device: torch.device) -> int:
    """Bytes of a GPU that can still be allocated: free ones, and those that torch has reserved but not used."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


class StateSource(Protocol):
    """Anything that states of a task can be sampled from: a replay, stored items, generated items."""

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor: ...

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor: ...


class Items:
    """An array of states (N, *observation.shape), and targets (N, num_actions): the outputs of another agent."""

    def __init__(self, states: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        self.states, self.targets = states, targets

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def on(cls, device: torch.device, states: torch.Tensor) -> Items:
        """Stored states, placed where a learner on that device can sample them."""
        if device.type == "cpu":
            return cls(states)
        return cls(empty_states(len(states), tuple(states.shape[1:]), device, states.dtype).copy_(states))

    def _sample_indices(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return torch.randint(len(self.states), (count,), generator=rng, device=self.states.device)

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states.index_select(0, self._sample_indices(count, rng))

    def sample(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.targets is not None, "these items have no targets"
        indices = self._sample_indices(count, rng)
        return self.states.index_select(0, indices), self.targets.index_select(0, indices)

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states[torch.randperm(len(self), generator=rng, device=self.states.device)[:count]]

    @torch.no_grad()
    def with_targets(self, network: torch.nn.Module, chunk: int = 1000) -> Items:
        """The same items with the network's outputs as targets. The network is frozen, so they are computed once."""
        return Items(self.states, torch.cat([network(states) for states in self.states.split(chunk)]))
