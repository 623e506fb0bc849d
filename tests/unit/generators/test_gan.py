"""The GAN's generator network."""

from dataclasses import replace

import pytest
import torch

from reaper.config.presets import ARCADE, PAPER
from reaper.config.settings import GeneratorSettings
from reaper.context import Context
from reaper.errors import Stopped
from reaper.generators import GAN, base, pseudo_items
from reaper.generators.gan.generator import GeneratorNetwork, initialise_adversarial
from reaper.progress import Progress
from reaper.storage.checkpoints import Checkpointer

SMALL = replace(ARCADE, generator=GeneratorSettings(pseudo_items=20))


def test_generated_states_do_not_depend_on_their_neighbours():
    generator = GeneratorNetwork(16, 2, 8)
    initialise_adversarial(generator, torch.Generator().manual_seed(0))
    many = generator.sample(6, torch.Generator().manual_seed(1))
    few = generator.sample(3, torch.Generator().manual_seed(1))
    assert (many.shape, many.dtype) == ((6, 2, 16, 16), torch.uint8)
    assert torch.equal(many[:3], few)


def test_large_states_are_the_same_however_many_are_computed_at_once_on_a_cpu():
    generator = GeneratorNetwork(84, 4, 100)
    initialise_adversarial(generator, torch.Generator().manual_seed(0))
    at_once = generator.sample(30, torch.Generator().manual_seed(1))  # 25 and 5
    generator.cpu_chunk = 30
    # Convolutions of another batch size may round differently.
    torch.testing.assert_close(
        generator.sample(30, torch.Generator().manual_seed(1)).int(), at_once.int(), atol=1, rtol=0
    )


def test_a_cpu_that_is_faster_in_bf16_samples_in_it():
    context = Context(PAPER, 18, 0, ("test",), compute_dtype=torch.bfloat16)
    generator = GAN().untrained(context)
    assert generator.compute_dtype == torch.bfloat16
    states = generator.sample(4, torch.Generator().manual_seed(1)).int()
    exact = generator.network.sample(4, torch.Generator().manual_seed(1)).int()
    torch.testing.assert_close(states, exact, atol=2, rtol=0)
    assert not torch.equal(states, exact)


def test_pseudo_items_are_those_of_one_call_and_report_progress(monkeypatch):
    monkeypatch.setattr(base, "PART", 7)
    events = []
    context = Context(SMALL, 6, 0, ("test",), progress=Progress(events.append, min_interval=0))
    generator = GAN().untrained(context)
    states = pseudo_items(context, generator, context.rng("a"))
    assert torch.equal(states, generator.sample(20, context.rng("a")))
    assert [event.done for event in events] == [0, 7, 14, 20]


def test_a_stop_is_noticed_while_pseudo_items_are_generated(monkeypatch):
    monkeypatch.setattr(base, "PART", 7)
    context = Context(SMALL, 6, 0, ("test",), checkpointer=Checkpointer(stop=lambda: context.progress.done >= 14))
    with pytest.raises(Stopped):
        pseudo_items(context, GAN().untrained(context), context.rng("a"))
    assert context.progress.done == 14
