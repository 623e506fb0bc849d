"""What a checkpoint holds: the state of every part that a killed stage would lose.

A part (weights, an optimiser, a replay, a random number generator, a counter) implements `Checkpointable`. Its state is
a nested dictionary of tensors and JSON values, and `restore` puts that state back into a freshly built part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from reaper.randomness import RNG

State = dict[str, Any]  # nested; the leaves are tensors, numbers, strings, None and lists of those


class Checkpointable(Protocol):
    """A part of a stage that can be saved and restored."""

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


class Parts(dict[str, Checkpointable]):
    """Several named parts, saved and restored as one."""

    def state(self) -> State:
        return {name: part.state() for name, part in self.items()}

    def restore(self, state: State) -> None:
        for name, part in self.items():
            part.restore(state[name])

    def rngs(self) -> Iterator[RNG]:
        """The random number generators among the parts, and those that a part holds as `rng`."""
        for part in self.values():
            rng = getattr(part, "rng", part)
            if isinstance(rng, RNG):
                yield rng
            elif isinstance(part, Parts):
                yield from part.rngs()


class Rows(list[dict[str, Any]]):
    """A growing list of result rows."""

    def state(self) -> State:
        return {"rows": list(self)}

    def restore(self, state: State) -> None:
        self[:] = state["rows"]


def clone_state(state: Mapping[str, Any]) -> State:
    """A copy whose tensors do not change with the part that the state was taken from."""
    clone: State = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            clone[name] = value.clone()
        else:
            clone[name] = clone_state(value) if isinstance(value, Mapping) else value
    return clone


def flatten(state: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and the other leaves of a state, each under its path (`trainer/weights/values`)."""
    tensors: dict[str, torch.Tensor] = {}
    others: dict[str, Any] = {}
    for name, value in state.items():
        path = f"{prefix}{name}"
        if isinstance(value, torch.Tensor):
            tensors[path] = value
        elif isinstance(value, Mapping):
            inner_tensors, inner_others = flatten(value, path + "/")
            tensors, others = tensors | inner_tensors, others | inner_others
        else:
            others[path] = value
    return tensors, others


def unflatten(leaves: Mapping[str, Any]) -> State:
    """The inverse of `flatten`, for both kinds of leaves together."""
    state: State = {}
    for path, value in leaves.items():
        *parents, name = path.split("/")
        node = state
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = value
    return state
