"""Items: states that stand for a task, stored or generated, raw or losslessly compressed."""

from __future__ import annotations

import zlib
from typing import Protocol

import numpy as np
import torch

ROOM_FOR_THE_REST = 3 * 2**30  # bytes that a stage needs beside replay and items: networks, a GAN's maps, recordings


class OverTheBus:
    """Pinned host memory, described as what a GPU may read: its kernels fetch rows over the bus when they need them."""

    def __init__(self, pinned: torch.Tensor) -> None:
        self.pinned = pinned  # lives as long as the tensor made of it
        self.__cuda_array_interface__ = {
            "shape": tuple(pinned.shape),
            "typestr": "|u1",
            "data": (pinned.data_ptr(), False),
            "version": 3,
        }


def room_for_items(count: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """An uninitialised array of uint8 states. On a GPU without room for it, it lies in pinned host memory, and all else
    stays as it is."""
    whole = (count, *shape)
    if device.type != "cuda" or fits(int(np.prod(whole)), free_on(device)):
        return torch.empty(whole, dtype=torch.uint8, device=device)
    return torch.as_tensor(OverTheBus(torch.empty(whole, dtype=torch.uint8, pin_memory=True)), device=device)


def fits(item_bytes: int, free: int) -> bool:
    """Whether items fit on a GPU beside the rest of a stage."""
    return item_bytes + ROOM_FOR_THE_REST <= free


def free_on(device: torch.device) -> int:
    """Bytes that can still be taken on a GPU: what is free, and what torch holds but does not use."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


class StateSource(Protocol):
    """Anything states of a task can be drawn from: a replay, stored items, a generator's dreams."""

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor: ...

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor: ...


class Items:
    """An array of uint8 states (N, history, size, size), and what the previous agent answered to each."""

    def __init__(self, states: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        self.states, self.targets = states, targets

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def on(cls, device: torch.device, states: torch.Tensor) -> Items:
        """Stored states, where a learner on that device can draw from them."""
        if device.type == "cpu":
            return cls(states)
        room = room_for_items(len(states), tuple(states.shape[1:]), device)
        return cls(room.copy_(states))

    def _draw(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return torch.randint(len(self.states), (count,), generator=rng, device=self.states.device)

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states.index_select(0, self._draw(count, rng))

    def sample(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.targets is not None, "these items have no targets"
        drawn = self._draw(count, rng)
        return self.states.index_select(0, drawn), self.targets.index_select(0, drawn)

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states[torch.randperm(len(self), generator=rng, device=self.states.device)[:count]]

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
