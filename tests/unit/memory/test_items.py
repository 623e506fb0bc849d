"""Stored items: stores stay within their bytes, every task has its share."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.memory.items import RESERVED_BYTES, Items, fits_on_gpu
from reaper.memory.long_term import LongTermMemory
from reaper.retention import CompressedRehearsal, Rehearsal

SHAPE = (2, 16, 16)


def random_states(count: int, seed: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, *SHAPE), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def flat_states(count: int, grey: int) -> torch.Tensor:
    """States that compress well, distinguished by one pixel."""
    states = torch.full((count, *SHAPE), grey, dtype=torch.uint8)
    states[:, 0, 0, 0] = torch.arange(count) % 256
    return states


def remember_three_tasks(method, settings, make):
    """The store after three tasks, whose states are grey levels 10, 20, 30."""
    memory = None
    for number in range(3):
        context = Context(settings, 6, 0, ("test", str(number)))
        new = Items(make(500, 10 * (number + 1)))
        retained = method.remember(context, memory, None, new).retained
        memory = LongTermMemory({}, tuple("abc"[: number + 1]), retained)
    return memory


def test_raw_store_shares_its_fixed_size_equally():
    settings = with_overrides(ARCADE, TINY)
    memory = remember_three_tasks(Rehearsal(61), settings, flat_states)
    assert [len(memory.retained[f"items.{task}"]) for task in range(3)] == [20, 20, 20]
    assert [int(memory.retained[f"items.{task}"][0, 1, 5, 5]) for task in range(3)] == [10, 20, 30]
    assert memory.bytes <= Rehearsal(61).num_bytes(settings, 6, 3) == 61 * 512


@pytest.mark.parametrize("codec", ["zlib", "lzma"])
def test_compressed_store_fits_many_more_items_in_the_same_bytes(codec):
    settings = with_overrides(ARCADE, TINY)
    method = CompressedRehearsal(capacity=48, max_items=10_000, codec=codec)
    memory = remember_three_tasks(method, settings, flat_states)
    stored = method.stored(Context(settings, 6, 0, ("test",)), memory)
    assert memory.bytes <= 48 * 512
    assert min(len(states) for states in stored) > 48
    assert method.num_items(memory) == sum(len(states) for states in stored)
    assert [int(states[0, 1, 5, 5]) for states in stored] == [10, 20, 30]


def test_a_store_of_the_old_codec_is_continued_with_the_new_one():
    """As when a memory of 0.2 learns a further task: earlier items stay as they are compressed."""
    settings = with_overrides(ARCADE, TINY)
    old, new = (CompressedRehearsal(capacity=24, max_items=100, codec=codec) for codec in ("zlib", "lzma"))
    first, second = random_states(100, 0), flat_states(100, 20)
    contexts = [Context(settings, 6, 0, ("test", name)) for name in "ab"]
    memory = LongTermMemory({}, ("a",), old.remember(contexts[0], None, None, Items(first)).retained)
    assert "background.0" not in memory.retained
    assert new.missing_from(contexts[1], memory) is None
    memory = LongTermMemory({}, ("a", "b"), new.remember(contexts[1], memory, None, Items(second)).retained)
    assert {name for name in memory.retained if "background" in name} == {"background.1"}
    earlier, later = new.stored(contexts[1], memory)
    for states, originals in ((earlier, first), (later, second)):
        known = {state.numpy().tobytes() for state in originals}
        assert len(states) > 5
        assert all(state.numpy().tobytes() in known for state in states)


def test_targets_are_computed_once():
    items = Items(random_states(30, 1))
    calls = []

    class Network(torch.nn.Module):
        def forward(self, states):
            calls.append(len(states))
            return states.float().mean(dim=(1, 2, 3), keepdim=True).flatten(1).expand(-1, 6)

    states, targets = items.with_targets(Network()).sample(8, torch.Generator().manual_seed(0))
    torch.testing.assert_close(targets[:, 0], states.float().mean(dim=(1, 2, 3)))
    assert calls == [30]


def test_items_have_to_fit_alongside_the_rest_of_a_stage():
    assert fits_on_gpu(7 * 10**9, 7 * 10**9 + RESERVED_BYTES)
    assert not fits_on_gpu(7 * 10**9, 7 * 10**9 + RESERVED_BYTES - 1)
    stored = torch.zeros(3, 2, 16, 16, dtype=torch.uint8)
    assert Items.on(torch.device("cpu"), stored).states is stored


def test_samples_are_of_all_items_with_their_own_targets():
    items = Items(torch.arange(10, dtype=torch.uint8)[:, None], torch.arange(10.0)[:, None])
    rng = torch.Generator().manual_seed(0)
    states, targets = items.sample(200, rng)
    assert torch.equal(states.float(), targets)
    assert set(states.flatten().tolist()) == set(range(10))
    assert set(items.sample_states(200, rng).flatten().tolist()) == set(range(10))
    assert sorted(items.distinct_states(20, rng).flatten().tolist()) == list(range(10))
    assert len(set(items.distinct_states(4, rng).flatten().tolist())) == len(items.distinct_states(4, rng)) == 4


def test_a_memory_counts_bytes_and_finds_its_parts():
    retained = {"generator.a.b": torch.zeros(3), "generators.c": torch.ones(1), "items.0": torch.zeros(7).byte()}
    memory = LongTermMemory({"w": torch.zeros(2, 5)}, ("a",), retained)
    assert memory.bytes == 4 * 10 + 4 * 3 + 4 + 7
    assert list(memory.part("generator")) == ["a.b"]
    assert list(memory.part("items")) == ["0"]
