"""Mixed rehearsal: a generator and compressed items in the bytes of the paper's generator; and the warm start."""

import pytest
import torch
from conftest import TINY, plan_tiny

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.retention import RETENTIONS
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.study.preflight import memory_bytes
from reaper.tasks.sequence import find_sequence

SETTINGS = with_overrides(ARCADE, {**TINY, "gan.narrow": 2})
CONTEXT = Context(SETTINGS, 6, 0, ("test",))


def states(value, count=50):
    return torch.full((count, *CONTEXT.observation.shape), value, dtype=torch.uint8)


@pytest.fixture(scope="module")
def method():
    return RETENTIONS.configure("mixed-rehearsal", SETTINGS)


@pytest.fixture(scope="module")
def memory(method):
    """After two tasks, whose screens are all 10 and all 20."""
    agent, tasks, found = CONTEXT.q_network(), ("a", "b"), None
    for number, value in enumerate((10, 20)):
        remembered = method.remember(CONTEXT, found, agent, Items(states(value)))
        found = LongTermMemory(state_tensors(agent), tasks[: number + 1], remembered.retained)
    return found


def test_half_of_what_is_rehearsed_is_real(method, memory):
    items = method.items(CONTEXT, memory).states
    count = SETTINGS.generator.pseudo_items
    assert len(items) == count
    generated, real = items[: count // 2], items[count // 2 :]
    assert {int(state.unique()) for state in real} == {10, 20}  # unique: of one value each
    assert len(generated.flatten(1).unique(dim=0)) > 10


def test_it_keeps_a_generator_and_items_of_every_task(method, memory):
    assert memory.part("generator")
    assert method.num_items(memory) == 100
    assert method.missing_from(CONTEXT, memory) is None
    without = {name: tensor for name, tensor in memory.retained.items() if not name.startswith("packed.1")}
    assert "compressed items" in method.missing_from(CONTEXT, LongTermMemory(memory.agent, memory.tasks, without))


@pytest.mark.parametrize(("preset", "tasks"), [(PAPER, "atari-3"), (ARCADE, "arcade-3")])
def test_it_takes_no_more_bytes_than_repr(preset, tasks):
    chains = {name: build_chain(CONDITIONS[name], find_sequence(tasks), 0, preset) for name in ("RePR-mixed", "RePR")}
    plus, plain = (memory_bytes(chain, 3) for chain in chains.values())
    assert 0.99 * plain < plus <= plain


def test_a_generator_of_full_width_leaves_no_room():
    (chain,) = plan_tiny(["RePR-mixed"], overrides={"gan.narrow": 1}).chains
    with pytest.raises(UserError, match=r"--gan\.narrow"):
        memory_bytes(chain, 3)


def test_a_warm_start_begins_with_the_previous_generator(memory):
    settings = with_overrides(SETTINGS, {"gan.steps": 0, "gan.warm-start": True})
    method = RETENTIONS.configure("pseudo-rehearsal", settings)
    context = Context(settings, 6, 0, ("another stage",))
    kept = method.remember(context, memory, context.q_network(), Items(states(30)))
    assert kept.retained.keys() == {f"generator.{name}" for name in memory.part("generator")}
    assert all(torch.equal(kept.retained[f"generator.{name}"], t) for name, t in memory.part("generator").items())
    cold = generator_for(with_overrides(settings, {"gan.warm-start": False})).untrained(context).state()
    assert any(not torch.equal(cold[name], tensor) for name, tensor in memory.part("generator").items())
