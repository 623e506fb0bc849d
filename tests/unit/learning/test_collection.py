"""Collecting a replay: as long, and with the same epsilon, as at the end of the teacher's training."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.learning.actor import Actor
from reaper.learning.collection import ReplayCollection
from reaper.progress import PhaseProgress, Progress
from reaper.tasks.sequence import find_task


def collection(events=None, **overrides):
    settings = with_overrides(ARCADE, {**TINY, "training.exploration-steps": 240, **overrides})
    parts = {"progress": Progress(events.append, min_interval=0.0)} if events is not None else {}
    context = Context(settings, 6, 0, ("collect",), **parts)
    return ReplayCollection(context, context.q_network(), find_task("catch"))


@pytest.fixture
def epsilons(monkeypatch):
    taken, act = [], Actor.act

    def record(self, network, epsilon, rng):
        taken.append(epsilon)
        act(self, network, epsilon, rng)

    monkeypatch.setattr(Actor, "act", record)
    return taken


def test_epsilon_is_that_of_the_end_of_training(epsilons):
    """240 agent steps of four environments, of which the replay holds the last 80: steps 160, 164, ..., 236."""
    replay = collection(**{"training.replay-capacity": 80}).run()
    assert epsilons == pytest.approx([1 - 0.9 * step / 240 for step in range(160, 240, 4)])
    assert replay.size.tolist() == [20] * 4


def test_a_short_training_is_repeated_from_its_start(epsilons):
    replay = collection(**{"training.replay-capacity": 4000}).run()
    assert len(epsilons) == 60
    assert epsilons[:10] == [1.0] * 10  # until learning starts, after 40 agent steps
    assert epsilons[10] == pytest.approx(1 - 0.9 * 40 / 240)
    assert replay.size.tolist() == [60] * 4


def test_it_goes_on_until_there_is_something_to_sample(epsilons):
    """One step would do for the budget, but the newest slot cannot be sampled."""
    replay = collection(**{"short-term.agent-steps": 4}).run()
    assert len(epsilons) == 2
    assert replay.ready()


def test_progress_counts_agent_steps_and_shows_scores():
    events = []
    collection(events, **{"short-term.agent-steps": 1200, "training.replay-capacity": 1000}).run()
    events = [event for event in events if isinstance(event, PhaseProgress)]
    assert (events[0].phase, events[0].done, events[0].total) == ("collect Catch", 0, 1000)
    assert [event.done for event in events[1:]] == list(range(4, 1004, 4))
    scored = [event.done for event in events if event.score is not None]
    assert scored[0] == 4 * 199  # the first episodes end with step 199
    assert -25 <= events[-1].score <= 25


def test_a_collection_resumes_where_it_was():
    whole, half = collection(), collection()
    expected = whole.run()

    class Stop(Exception):
        pass

    def stop_after(work):
        if half.agent_steps == 120:
            raise Stop

    half.context.checkpointer.maybe_save = stop_after
    with pytest.raises(Stop):
        half.run()
    events = []
    resumed = collection(events)
    resumed.restore(half.state())
    found = resumed.run()
    assert next(event for event in events if event.phase == "collect Catch").done == 120
    for name, tensor in expected.state().items():
        assert torch.equal(found.state()[name], tensor), name


def test_environments_are_closed_in_the_end_and_not_part_of_a_checkpoint(monkeypatch):
    closed = []
    running = collection()
    monkeypatch.setattr(running.experience.actor.envs, "close", lambda: closed.append(True))
    running.run()
    assert closed == [True]
    assert running.state()["actor"]["seed"] is None
