"""What a stage tells of its progress, and what is made of it."""

import pytest
import torch
from conftest import TINY

from reaper.config.presets import ARCADE, with_overrides
from reaper.context import Context
from reaper.learning.evaluation.episodes import evaluate
from reaper.progress import Progress, Rate
from reaper.tasks.sequence import find_task


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("reaper.progress.time.monotonic", lambda: now[0])
    return now


def test_a_phase_goes_on_where_it_was_after_an_aside():
    told = []
    progress = Progress(told.append, seconds_between=0.0)
    progress.begin("learn Catch", 100, done=40)
    progress.advance(10, score=3.0)
    with progress.aside("test Catch", 4, "games"):
        progress.advance(3)
    progress.advance(10)
    assert [(e["phase"], e["unit"], e["done"], e["total"], e["score"]) for e in told] == [
        ("learn Catch", "frames", 40, 100, None),
        ("learn Catch", "frames", 50, 100, 3.0),
        ("test Catch", "games", 0, 4, None),
        ("test Catch", "games", 3, 4, None),
        ("learn Catch", "frames", 50, 100, 3.0),
        ("learn Catch", "frames", 60, 100, 3.0),
    ]


def test_an_aside_that_fails_leaves_the_phase_as_it_was():
    progress = Progress()
    progress.begin("learn Catch", 100, done=40)
    with pytest.raises(InterruptedError), progress.aside("test Catch", 4, "games"):
        raise InterruptedError
    assert (progress.phase, progress.done) == ("learn Catch", 40)


def test_the_time_of_tests_counts_for_the_phase_they_are_part_of(clock):
    rate = Rate()

    def read(seconds, phase, done, total=100):
        clock[0] += seconds
        return rate.read({"phase": phase, "done": done, "total": total})

    assert read(0, "learn", 40) == (0.0, None)  # resumed: nothing of this was done here
    assert read(10, "learn", 60) == (2.0, 20.0)
    assert read(0, "test", 0, 4) == (0.0, None)
    assert read(10, "test", 4, 4) == (pytest.approx(0.4), 0.0)
    assert read(0, "learn", 60) == (1.0, 40.0)
    assert read(0, "test", 0, 4) == (0.0, None)  # another one
    assert read(1, "test", 1, 4) == (1.0, 3.0)


def test_a_test_tells_how_many_of_its_games_are_over():
    told = []
    settings = with_overrides(ARCADE, TINY)
    context = Context(settings, 6, 0, ("x",), torch.device("cpu"), progress=Progress(told.append, seconds_between=0.0))
    context.progress.begin("learn Catch", 100)
    evaluate(context, None, find_task("catch"), 0)
    games = [event["done"] for event in told if event["phase"] == "test Catch"]
    assert (games[0], games[-1]) == (0, settings.evaluation.episodes)
    assert games == sorted(games)
    assert (told[-1]["phase"], told[-1]["done"]) == ("learn Catch", 0)
