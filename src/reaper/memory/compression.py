"""Lossless compression of stored items. Each item, or each block of items, is compressed on its own, so that any can be
dropped.

A state is mostly background, and its stacked frames are mostly equal. The codec of new stores takes the background away
(XOR with the most frequent value of each pixel leaves zeros there), and LZMA finds the rest of one frame in the one
before it, moved or not; in a block, also in other states. Its fast mode is within 3 % of the smallest sizes, in a
twentieth of the time (docs/lab/compression.md). Codecs see the bytes of states of any type (`to_bytes`).
"""

from __future__ import annotations

import lzma
import math
import zlib
from typing import Protocol

import numpy as np
import torch

from reaper.errors import UserError

BACKGROUND_SAMPLE = 250  # states whose most frequent values are taken for the background
LZMA_FILTERS = [
    {
        "id": lzma.FILTER_LZMA1,  # raw, without the headers of a file
        "dict_size": 1 << 16,  # the four frames of a state at paper scale have 28,224 bytes
        "lc": 1,
        "lp": 0,
        "pb": 0,
        "mode": lzma.MODE_FAST,
        "mf": lzma.MF_HC4,
        "nice_len": 273,
    }
]
MAX_WINDOW = 1 << 23  # bytes in which matches are found; the encoder needs about eight times as many


class Codec(Protocol):
    """Turns one state, as an array of its bytes, into fewer bytes and back. LZMA takes a block of them as well."""

    def compress(self, state: np.ndarray) -> bytes: ...

    def decompress(self, packed: bytes, shape: tuple[int, ...]) -> np.ndarray: ...


class ZlibCodec:
    """The codec of stores that state no background: those of 0.2. Frames after the first are differences."""

    def compress(self, state: np.ndarray) -> bytes:
        differences = state.copy()
        differences[1:] = state[1:] - state[:-1]  # uint8 arithmetic wraps around, both ways
        return zlib.compress(differences.tobytes(), 9)

    def decompress(self, packed: bytes, shape: tuple[int, ...]) -> np.ndarray:
        try:
            raw = zlib.decompressobj().decompress(packed, math.prod(shape) + 1)
        except zlib.error as error:
            raise _damaged(error) from None
        return np.cumsum(_array(raw, shape), axis=0, dtype=np.uint8)


class LzmaCodec:
    """LZMA of what differs from a task's background (*state.shape); an empty one stands for a black screen."""

    def __init__(self, background: np.ndarray) -> None:
        self.background = background

    @classmethod
    def fit(cls, states: torch.Tensor, max_bytes: int) -> LzmaCodec:
        """The codec for a task's states (N, *state.shape), unless the background alone would need too many bytes."""
        sample = states[:BACKGROUND_SAMPLE].cpu().numpy()
        fits = len(sample) > 0 and sample[0].nbytes <= max_bytes
        return cls(most_frequent(sample) if fits else np.zeros(0, dtype=np.uint8))

    def compress(self, state: np.ndarray) -> bytes:
        differing = self._differing(state)
        return lzma.compress(differing.tobytes(), lzma.FORMAT_RAW, filters=lzma_filters(differing.nbytes))

    def decompress(self, packed: bytes, shape: tuple[int, ...]) -> np.ndarray:
        try:
            opened = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=lzma_filters(math.prod(shape)))
            raw = opened.decompress(packed, math.prod(shape) + 1)
        except lzma.LZMAError as error:
            raise _damaged(error) from None
        if self.background.size and self.background.shape not in (shape, shape[1:]):
            raise _damaged(f"a background of shape {self.background.shape}")
        return self._differing(_array(raw, shape))

    def _differing(self, state: np.ndarray) -> np.ndarray:
        return state ^ self.background if self.background.size else state  # its own inverse


def lzma_filters(num_bytes: int) -> list[dict[str, int]]:
    """For data of so many bytes: a window that spans all of it, and never less than that of a single state."""
    window = max(LZMA_FILTERS[0]["dict_size"], min(1 << (num_bytes - 1).bit_length(), MAX_WINDOW))
    return [{**LZMA_FILTERS[0], "dict_size": window}]


def most_frequent(states: np.ndarray) -> np.ndarray:
    """The most frequent value at each place of uint8 states: (N, ...) -> (...); the smallest of several."""
    flat = states.reshape(len(states), -1).astype(np.int64)
    places = flat.shape[1]
    counts = np.bincount((flat + 256 * np.arange(places)).ravel(), minlength=256 * places)
    return counts.reshape(places, 256).argmax(axis=1).astype(np.uint8).reshape(states.shape[1:])


def to_bytes(states: torch.Tensor) -> torch.Tensor:
    """States of any type as uint8, their last axis as many times as long; images stay as they are."""
    return states.contiguous().view(torch.uint8)


def decompress(
    packed: list[bytes], codec: Codec, shape: tuple[int, ...], dtype: torch.dtype = torch.uint8, block: int = 1
) -> torch.Tensor:
    """(N, *shape) the states of compressed items, or (N * block, *shape) those of compressed blocks."""
    in_bytes = (*shape[:-1], shape[-1] * dtype.itemsize)
    of_one = (block, *in_bytes) if block > 1 else in_bytes
    states = np.empty((len(packed), *of_one), dtype=np.uint8)
    for i, item in enumerate(packed):
        states[i] = codec.decompress(item, of_one)
    return torch.from_numpy(states.reshape(-1, *in_bytes)).view(dtype)


def sorted_block(states: np.ndarray) -> np.ndarray:
    """The same states, those next to each other that begin alike: their order means nothing, and this packs better."""
    return states[sorted(range(len(states)), key=lambda i: states[i].tobytes())]


def _array(raw: bytes, shape: tuple[int, ...]) -> np.ndarray:
    if len(raw) != math.prod(shape):
        raise _damaged(f"a state of {len(raw)} bytes")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def _damaged(why: object) -> UserError:
    return UserError(f"the compressed items of this long-term memory are damaged: {why}")
