"""Compiled and eager learning do the same, update by update."""

import pytest
import torch

from reaper.learning.compiling import can_compile, worth_compiling
from reaper.learning.context import Context
from reaper.learning.optimiser import FlatWeights
from reaper.learning.short_term import ShortTerm
from reaper.scales import ARCADE, PAPER, at_fraction, with_overrides
from reaper.tasks.sequence import find_task

LARGE_FRAMES = {
    "play.games": 4,
    "play.batch-size": 8,
    "play.replay-frames": 400,
    "play.replay-start": 40,
    "short-term.observed-frames": 96,
    "short-term.target-every": 32,
    "evaluation.games": 1,
    "optimiser.learning-rate": 0.1,  # the paper's moves nothing in so few updates
}


def weights_after(compiles):
    settings = with_overrides(PAPER, LARGE_FRAMES)
    context = Context(settings, 18, 0, ("test",), torch.device("cpu"), compiles=compiles)
    learner = ShortTerm(context, find_task("ALE/Boxing-v5"))
    learner.practice.run_to(settings.short_term.observed_frames)
    learner.close()
    assert learner.best.losses > 0
    return learner.practice.weights.values.clone(), FlatWeights(context.q_network()).values


@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_compiled_updates_are_the_eager_ones():
    eager, before = weights_after(False)
    compiled, _ = weights_after(True)
    moved = (eager - before).abs().max()
    assert moved > 1e-4
    assert (eager - compiled).abs().max() < 1e-3 * moved


def test_compiling_is_left_out_where_it_does_not_pay(monkeypatch):
    monkeypatch.setattr("reaper.learning.compiling.can_compile", lambda device: True)
    cpu = torch.device("cpu")
    assert worth_compiling(PAPER, cpu)
    assert not worth_compiling(ARCADE, cpu)
    assert not worth_compiling(at_fraction(PAPER, 0.0005), cpu)
    monkeypatch.setattr("reaper.learning.compiling.can_compile", lambda device: False)
    assert not worth_compiling(PAPER, cpu)
