"""Where every random number comes from.

Each use has a stream of its own, derived from the names of what it is for. So nothing depends on the order in which
streams are opened, and the same seed gives the same run.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch


def derive_seed(*names: str | int) -> int:
    """A 63-bit seed from any number of names."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class RNG(torch.Generator):
    """A random stream of torch that can be left and taken up again."""

    def state(self) -> dict[str, Any]:
        return {"stream": self.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.set_state(state["stream"])


def new_rng(device: torch.device | str, *names: str | int) -> RNG:
    """A random stream for one purpose."""
    made = RNG(device=device)
    made.manual_seed(derive_seed(*names))
    return made
