"""A generator for small frames: an autoregressive model of their patches (docs/concepts/repr-plus.md)."""

from reaper.generators.tokens.tokens import Tokens

__all__ = ["Tokens"]
