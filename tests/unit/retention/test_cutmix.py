"""CutMix: which pixels of which states come from another state, and that it is off by default."""

import pytest
import torch
from conftest import TINY, plan_tiny

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, VECTOR
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.learning.knowledge import QValues
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.randomness import new_rng
from reaper.retention import RETENTIONS
from reaper.retention.cutmix import cutmix_, rectangles
from reaper.study.preflight import memory_bytes

SIDE = 16


def numbered(count):
    """States of one value each: their number."""
    return torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 2, SIDE, SIDE).clone()


def test_rectangles_lie_within_the_frame_and_have_all_sizes_and_places():
    masks = rectangles(5000, torch.Size((SIDE, 2 * SIDE)), new_rng("cpu", 1))
    heights, widths = masks.any(2).sum(1), masks.any(1).sum(1)
    assert torch.equal(masks.sum((1, 2)), heights * widths)  # one rectangle each
    assert sorted(heights.unique().tolist()) == list(range(2, 13))  # 1/8 to 3/4 of the side
    assert sorted(widths.unique().tolist()) == list(range(4, 25))
    assert masks.any(0).all()  # every pixel, the corners included
    first = masks.any(2).int().argmax(1)
    assert (first + heights).max() == SIDE


def test_a_rectangle_of_another_state_replaces_the_own_one_in_all_channels():
    before = numbered(200)
    after = before.clone()
    cutmix_(after, 0.5, new_rng("cpu", 2))
    changed = (after != before).flatten(1).any(1)
    assert 90 <= changed.sum() <= 100  # some get a rectangle of themselves
    assert torch.equal(after[:, 0], after[:, 1])
    foreign = (after != before)[changed][:, 0]
    covered = foreign.any(2).sum(1) * foreign.any(1).sum(1)
    assert (foreign.sum((1, 2)) == covered).all()
    assert changed[:100].sum() > 30 < changed[100:].sum()  # anywhere in the array


def test_nothing_is_mixed_with_a_share_of_zero_and_everything_with_one():
    states = numbered(100)
    cutmix_(states, 0.0, new_rng("cpu", 3))
    assert torch.equal(states, numbered(100))
    cutmix_(states, 1.0, new_rng("cpu", 3), chunk=7)
    assert (states != numbered(100)).flatten(1).any(1).sum() > 95


@pytest.mark.parametrize("name", ["pseudo-rehearsal", "mixed-rehearsal"])
def test_rehearsed_items_are_mixed_and_their_targets_are_those_of_the_mixed_states(name):
    settings = with_overrides(ARCADE, {**TINY, "gan.narrow": 2})
    context = Context(settings, 6, 0, ("test",))
    agent, method = context.q_network(), RETENTIONS.configure(name, settings)
    kept = method.remember(context, None, agent, Items(numbered(50)))
    memory = LongTermMemory(state_tensors(agent), ("a",), kept.retained)

    def recalled(share):
        method = RETENTIONS.configure(name, with_overrides(settings, {f"{name}.cutmix": share}))
        return method, method.recall(context, memory, QValues(), agent).items

    _, plain = recalled(0.0)
    mixing, mixed = recalled(0.5)
    assert torch.equal(plain.states, method.items(context, memory).states)  # the default
    assert 0.3 < (plain.states != mixed.states).flatten(1).any(1).float().mean() <= 0.5
    torch.testing.assert_close(mixed.targets, agent(mixed.states))
    # The next generator learns states as they are generated.
    assert torch.equal(mixing.items(context, memory).states, plain.states)


def test_vectors_have_no_rectangles():
    settings = with_overrides(VECTOR, {"pseudo-rehearsal.cutmix": 0.5, "observation.features": 4})
    with pytest.raises(UserError, match="cutmix needs images"):
        RETENTIONS.configure("pseudo-rehearsal", settings).num_bytes(settings, 2, 1)


def test_the_first_long_term_memory_does_not_depend_on_it():
    digests = [
        [stage.digest for stage in plan_tiny(["RePR"], overrides=overrides).stages if stage.kind == "consolidate"]
        for overrides in ({}, {"pseudo-rehearsal.cutmix": 0.5})
    ]
    assert digests[0][0] == digests[1][0]
    assert not set(digests[0][1:]) & set(digests[1])


def test_it_takes_no_bytes():
    (chain,) = plan_tiny(["RePR"], overrides={"pseudo-rehearsal.cutmix": 0.5}).chains
    (plain,) = plan_tiny(["RePR"]).chains
    assert memory_bytes(chain, 3) == memory_bytes(plain, 3)
