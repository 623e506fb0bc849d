"""Where every random number comes from.

Each use has a stream of its own, derived from the names of what it is for. So nothing depends on the order in which
streams are opened, and the same seed gives the same run.
"""

from __future__ import annotations

import hashlib

import torch


def derive_seed(*names: str | int) -> int:
    """A 63-bit seed from any number of names."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(device: torch.device | str, *names: str | int) -> torch.Generator:
    """A random stream of torch for one purpose."""
    return torch.Generator(device=device).manual_seed(derive_seed(*names))
