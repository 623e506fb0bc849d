"""Random number generators.

Each purpose has a random stream of its own, seeded with a hash of the run's seed and of names that state the purpose.
So no stream depends on the order in which others are used, and the same seed gives the same run. Names are part of the
results: renaming a purpose changes every number that is drawn for it.
"""

from __future__ import annotations

import hashlib

import torch


def derive_seed(*names: str | int) -> int:
    """Hashes any number of names to a 63-bit seed."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class RNG(torch.Generator):
    """A torch generator whose state can be saved and restored."""

    def state(self) -> dict[str, torch.Tensor]:
        return {"stream": self.get_state()}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        self.set_state(state["stream"])


def new_rng(device: torch.device | str, *names: str | int) -> RNG:
    """The generator of the random stream with these names."""
    rng = RNG(device=device)
    rng.manual_seed(derive_seed(*names))
    return rng
