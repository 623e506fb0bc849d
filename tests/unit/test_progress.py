"""The events that a stage reports, and the rates computed from them."""

import json

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.learning.evaluation.episodes import evaluate
from reaper.progress import (
    CurvePoints,
    CurvesRestarted,
    Event,
    PhaseProgress,
    Progress,
    Rate,
    Remark,
    StageCached,
    StageFailed,
    StageFinished,
    StageHeld,
    StageStarted,
    StageStopped,
)
from reaper.storage.manifests import Provenance
from reaper.tasks.sequence import find_task

EXAMPLES = [
    PhaseProgress("learn Catch", "agent steps", 40, 100),
    PhaseProgress("learn Catch", "agent steps", 50, 100, score=3.0),
    StageStarted(),
    StageStarted("host", "node"),
    StageFinished({"seconds": 2.5, "device": "cpu"}),
    StageCached(),
    StageHeld(),
    StageFailed("the loss became nan", 70, others_continue=True),
    StageStopped("stopped", 75),
    Remark("a worker was lost"),
    CurvePoints(40, {"training/loss": 0.5}),
    CurvesRestarted(("training", "evaluation"), 40),
]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("reaper.progress.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.name)
def test_events_survive_json(event):
    assert Event.from_json(json.loads(json.dumps(event.to_json()))) == event


def test_there_is_an_example_of_every_event():
    assert {type(event) for event in EXAMPLES} == set(Event.__subclasses__())


@pytest.mark.parametrize("record", [{}, {"event": "danced"}, {"event": "remark"}, {"event": "held", "by": "me"}])
def test_anything_else_is_not_an_event(record):
    with pytest.raises(ValueError, match="event"):
        Event.from_json(record)


def test_a_phase_resumes_after_a_subphase():
    events = []
    progress = Progress(events.append, min_interval=0.0)
    progress.begin("learn Catch", 100, done=40)
    progress.advance(10, score=3.0)
    with progress.subphase("evaluate Catch", 4, "episodes"):
        progress.advance(3)
    progress.advance(10)
    assert events == [
        PhaseProgress("learn Catch", "agent steps", 40, 100, None),
        PhaseProgress("learn Catch", "agent steps", 50, 100, 3.0),
        PhaseProgress("evaluate Catch", "episodes", 0, 4, None),
        PhaseProgress("evaluate Catch", "episodes", 3, 4, None),
        PhaseProgress("learn Catch", "agent steps", 50, 100, 3.0),
        PhaseProgress("learn Catch", "agent steps", 60, 100, 3.0),
    ]


def test_a_stage_that_took_no_measurable_time():
    finished = StageFinished(Provenance(seconds=0.0, finished="2026-11-18T09:01:09Z").to_json())
    assert finished.seconds == 0.0
    assert finished.to_json() == {"event": "finished", "finished": "2026-11-18T09:01:09Z", "seconds": 0.0}


def test_the_end_of_a_phase_is_always_reported():
    """However soon after the event before: the last score of an evaluation is its result."""
    events = []
    progress = Progress(events.append, min_interval=60.0)
    progress.begin("evaluate Catch", 4, "episodes")
    progress.advance(3, score=2.0)
    progress.advance(1, score=5.0)
    assert [(event.done, event.score) for event in events] == [(0, None), (4, 5.0)]


def test_a_subphase_that_fails_leaves_the_phase_unchanged():
    progress = Progress()
    progress.begin("learn Catch", 100, done=40)
    with pytest.raises(InterruptedError), progress.subphase("evaluate Catch", 4, "episodes"):
        raise InterruptedError
    assert (progress.phase, progress.done) == ("learn Catch", 40)


def test_curves_restart_where_a_phase_resumes_and_leave_out_missing_values():
    events = []
    progress = Progress(events.append)
    progress.begin("learn Catch", 100, done=40, curves=["training"])
    progress.log_curves("training", 50, {"loss": 0.5, "score": None})
    assert events[1:] == [CurvesRestarted(("training",), 40), CurvePoints(50, {"training/loss": 0.5})]


def test_the_time_of_evaluations_counts_for_the_phase_they_interrupt(clock):
    rate = Rate()

    def update(seconds, phase, done, total=100):
        clock[0] += seconds
        return rate.update(PhaseProgress(phase, "", done, total))

    assert update(0, "learn", 40) == (0.0, None)  # resumed: this process has done nothing yet
    assert update(10, "learn", 60) == (2.0, 20.0)
    assert update(0, "evaluate", 0, 4) == (0.0, None)
    assert update(10, "evaluate", 4, 4) == (pytest.approx(0.4), 0.0)
    assert update(0, "learn", 60) == (1.0, 40.0)
    assert update(0, "evaluate", 0, 4) == (0.0, None)  # another evaluation
    assert update(1, "evaluate", 1, 4) == (1.0, 3.0)


def test_an_evaluation_reports_how_many_episodes_are_over():
    events = []
    settings = with_overrides(ARCADE, TINY)
    progress = Progress(events.append, min_interval=0.0)
    context = Context(settings, 6, 0, ("x",), torch.device("cpu"), progress=progress)
    context.progress.begin("learn Catch", 100)
    evaluate(context, None, find_task("catch"), 0)
    outer, *episodes, last = events
    assert {event.total for event in episodes} == {settings.evaluation.episodes}
    done = [event.done for event in episodes]
    assert (done[0], done[-1]) == (0, settings.evaluation.episodes)
    assert done == sorted(done)
    assert last == outer == PhaseProgress("learn Catch", "agent steps", 0, 100)
