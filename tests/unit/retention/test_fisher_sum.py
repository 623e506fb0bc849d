"""The Fisher matrix over batches: counted, resumed, and without a trace in the network."""

import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.memory.items import Items
from reaper.progress import PhaseProgress, Progress
from reaper.retention.ewc import FisherSum

SETTINGS = with_overrides(ARCADE, {**TINY, "fisher.batches": 5})
STATES = Items(torch.randint(0, 256, (40, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8))


class Interrupted(Exception):
    pass


class StopsAfter:
    """A checkpointer that raises after so many batches."""

    def __init__(self, batches):
        self.left, self.saved = batches, []

    def register(self, name, part):
        self.part = part

    def maybe_save(self, work=0):
        self.saved.append(work)
        self.left -= work
        if not self.left:
            raise Interrupted


def new_sum(checkpointer=None, events=None):
    parts = {"progress": Progress(events.append, min_interval=0.0)} if events is not None else {}
    parts |= {"checkpointer": checkpointer} if checkpointer else {}
    context = Context(SETTINGS, 6, 0, ("fisher",), **parts)
    return FisherSum(context, context.q_network(), STATES)


def test_it_is_the_mean_of_its_batches():
    whole, parts = new_sum(), new_sum()
    batches = [STATES.sample_states(SETTINGS.training.batch_size, parts.rng) for _ in range(5)]
    found = whole.run()
    for name, value in found.items():
        expected = sum(parts.diagonal(batch)[name] for batch in batches) / 5
        torch.testing.assert_close(value, expected.cpu())
        assert value.any()


def test_progress_counts_batches():
    events = []
    new_sum(events=events).run()
    counted = [(event.done, event.total, event.unit) for event in events if isinstance(event, PhaseProgress)]
    assert counted == [(done, 5, "batches") for done in range(6)]


def test_an_interrupted_sum_resumes_where_it_was():
    undisturbed, stops = new_sum().run(), StopsAfter(2)
    interrupted = new_sum(stops)
    try:
        interrupted.run()
    except Interrupted:
        state = stops.part.state()
    assert stops.saved == [1, 1]
    events = []
    resumed = new_sum(events=events)
    resumed.restore(state)
    found = resumed.run()
    assert events[0].done == 2
    for name, value in undisturbed.items():
        assert torch.equal(found[name], value)


def test_the_network_is_left_as_it_was():
    total = new_sum()
    total.agent.space_to_depth = True
    total.diagonal(STATES.states[:4])
    assert total.agent.space_to_depth is True
