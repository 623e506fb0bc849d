"""Loading weights from a file into a network; those of another network are refused in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

from reaper.errors import UserError

Network = TypeVar("Network", bound=nn.Module)


def with_weights(build: Callable[[], Network], weights: Mapping[str, torch.Tensor], what: str) -> Network:
    """A network with exactly these weights.

    Names, dtypes and shapes are first compared with those of a network on the meta device, which allocates nothing: so
    forged settings cannot make it allocate more than the file holds.
    """
    try:
        with torch.device("meta"):
            expected = _describe(build().state_dict())
    except (RuntimeError, TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise UserError(f"no {what} can be built from these settings: {str(error).splitlines()[0]}") from None
    given = _describe(weights)
    for name in sorted({*expected, *given}):
        if given.get(name) != expected.get(name):
            found, wanted = given.get(name, "missing"), expected.get(name, "absent")
            raise UserError(f"the weights are those of another network: {what} {name[:80]} is {found}, not {wanted}")
    network = build()
    network.load_state_dict(dict(weights), strict=False)  # the counters of batch normalisation are not stored
    return network


def _describe(weights: Mapping[str, torch.Tensor]) -> dict[str, str]:
    return {
        name: f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
        for name, tensor in weights.items()
        if not name.endswith("num_batches_tracked")
    }
