"""Compressed items: nothing is lost, and a codec that finds moving things on a background packs them tightly."""

import lzma
import zlib

import numpy as np
import pytest
import torch

from reaper.errors import UserError
from reaper.memory.compression import LZMA_FILTERS, LzmaCodec, ZlibCodec, decompress, most_frequent, to_bytes

SHAPE = (4, 84, 84)
PAPER_BYTES, PAPER_ITEMS = 600 * 4 * 84 * 84, 17_000


def scenes(count: int) -> np.ndarray:
    """Stacks of frames of a textured background with six sprites of eight by eight pixels that move across it."""
    random = np.random.default_rng(0)
    background = np.repeat(np.repeat(random.integers(0, 256, (21, 21)), 4, axis=0), 4, axis=1).astype(np.uint8)
    sprites = random.integers(0, 256, (6, 8, 8)).astype(np.uint8)
    states = np.tile(background, (count, 4, 1, 1))
    for state in states:
        for sprite, (y, x), (dy, dx) in zip(
            sprites, random.integers(10, 64, (6, 2)), random.integers(-2, 3, (6, 2)), strict=True
        ):
            for t in range(4):
                state[t, y + t * dy : y + t * dy + 8, x + t * dx : x + t * dx + 8] = sprite
    return states


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, *SHAPE)).astype(np.uint8)


@pytest.mark.parametrize(
    "states", [scenes(20), noise(5), np.zeros((3, *SHAPE), np.uint8)], ids=["scenes", "noise", "0"]
)
@pytest.mark.parametrize("max_bytes", [0, 10**6])
def test_compression_is_lossless(states, max_bytes):
    fitted = LzmaCodec.fit(torch.from_numpy(states), max_bytes)
    assert fitted.background.shape == (SHAPE if max_bytes else (0,))
    for codec in (fitted, ZlibCodec()):
        packed = [codec.compress(state) for state in states]
        assert torch.equal(decompress(packed, codec, SHAPE), torch.from_numpy(states))


def test_items_of_an_old_store_are_read_as_they_were_written():
    packed = zlib.compress(bytes([10, 250, 5, 6, 255, 0]), 9)  # a frame of two pixels, then differences, modulo 256
    assert ZlibCodec().decompress(packed, (3, 1, 2)).tolist() == [[[10, 250]], [[15, 0]], [[14, 0]]]


def test_the_background_is_the_most_frequent_value_of_each_pixel():
    assert most_frequent(np.array([[3, 200], [3, 7], [9, 7], [0, 255]], np.uint8)).tolist() == [3, 7]
    assert most_frequent(np.array([[5], [4]], np.uint8)).tolist() == [4]  # the smallest of several


def test_many_more_items_fit_than_with_the_old_codec():
    states = scenes(60)
    fitted = LzmaCodec.fit(torch.from_numpy(states), 10**6)
    new, old = (np.mean([len(codec.compress(state)) for state in states]) for codec in (fitted, ZlibCodec()))
    assert new < 0.75 * old


def test_items_of_an_atari_game_reach_the_papers_number():
    """Random play of Road Runner: 17,000 items fit into the bytes of 600 raw ones, as in the paper."""
    pytest.importorskip("ale_py")
    from reaper.tasks.atari import AtariTask
    from reaper.tasks.observation import ObservationSpec
    from reaper.tasks.task import EnvOptions

    task = AtariTask("ALE/RoadRunner-v5", "road_runner", EnvOptions(2, ObservationSpec((1, 84, 84))))
    random, frames = np.random.default_rng(0), [task.reset(0).copy()]
    for _ in range(320):
        task.send(random.integers(18, size=2))
        frames.append(task.receive().observations.copy())
    task.close()
    states = np.stack([np.concatenate([f[env] for f in frames[t : t + 4]]) for t in range(0, 316, 4) for env in (0, 1)])
    fitted = LzmaCodec.fit(torch.from_numpy(states), 10**6)
    new, old = (np.mean([len(codec.compress(state)) + 4 for state in states]) for codec in (fitted, ZlibCodec()))
    assert PAPER_BYTES / new > PAPER_ITEMS > PAPER_BYTES / old


@pytest.mark.parametrize(
    ("packed", "codec", "complaint"),
    [
        (b"no", ZlibCodec(), "damaged"),
        (zlib.compress(bytes(10**6)), ZlibCodec(), "a state of 28225 bytes"),  # not one byte more is unpacked
        (zlib.compress(b"few"), ZlibCodec(), "a state of 3 bytes"),
        (b"no", LzmaCodec(np.zeros(0, np.uint8)), "damaged"),
        (lzma.compress(bytes(10**6), lzma.FORMAT_RAW, filters=LZMA_FILTERS), LzmaCodec(np.zeros(0, np.uint8)), "28225"),
        (LzmaCodec(np.zeros(SHAPE, np.uint8)).compress(scenes(1)[0]), LzmaCodec(np.zeros(9, np.uint8)), "background"),
    ],
)
def test_damaged_items_are_refused_in_one_line(packed, codec, complaint):
    with pytest.raises(UserError, match=complaint):
        decompress([packed], codec, SHAPE)


def test_items_of_a_store_with_a_background_are_read_as_they_were_written():
    """Written once and never again: a long-term memory is opened by later versions."""
    state = (np.arange(2 * 6 * 6) * 37 % 11).astype(np.uint8).reshape(2, 6, 6)
    codec = LzmaCodec(np.full((2, 6, 6), 3, np.uint8))
    packed = bytes.fromhex("0001821b76cf9d340d97958f852d373c93b3fffe9fc000")
    assert codec.decompress(packed, (2, 6, 6)).tolist() == state.tolist()
    assert len(codec.compress(state)) <= len(packed)


def test_a_background_is_that_of_250_states():
    """Of the first 249, seven is the most frequent; of 250 there is a tie, and the smaller wins; of 251 seven again."""
    values = [7] * 125 + [3] * 125 + [7] * 100
    states = torch.tensor(values, dtype=torch.uint8)[:, None]
    assert LzmaCodec.fit(states, 1).background.tolist() == [3]
    assert LzmaCodec.fit(states, 0).background.tolist() == []  # it would not fit
    assert LzmaCodec.fit(states[:0], 1).background.tolist() == []  # nothing to learn it from


def test_numbers_of_any_type_are_compressed_by_their_bytes():
    states = torch.tensor([[1.5, -2.0, 3.25], [0.0, 1e-9, 7.0]])
    in_bytes = to_bytes(states)
    assert (in_bytes.dtype, in_bytes.shape) == (torch.uint8, (2, 12))
    codec = LzmaCodec.fit(in_bytes, 100)
    packed = [codec.compress(each.numpy()) for each in in_bytes]
    assert torch.equal(decompress(packed, codec, (3,), torch.float32), states)
