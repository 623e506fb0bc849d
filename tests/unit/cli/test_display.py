"""The progress of a study as JSON lines and as bars."""

import io
import json

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from reaper.cli import display
from reaper.cli.display import Bars, JsonLines
from reaper.progress import (
    CurvePoints,
    CurvesRestarted,
    PhaseProgress,
    Remark,
    StageCached,
    StageFailed,
    StageFinished,
    StageHeld,
    StageStarted,
)
from reaper.study.kinds.base import Stage

FIRST, SECOND = (Stage({"kind": "evaluate", "number": number}, f"stage {number}") for number in (1, 2))


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def lines_of(*events):
    file = io.StringIO()
    lines = JsonLines(2, file)
    for stage, event in events:
        lines(stage, event)
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_a_line_names_the_event_and_the_stage_and_counts_finished_stages():
    lines = lines_of((FIRST, StageStarted()), (FIRST, StageFinished({"seconds": 2.5})), (SECOND, StageCached()))
    assert [line["event"] for line in lines] == ["started", "finished", "cached"]
    assert [(line["stages_finished"], line["stages"]) for line in lines] == [(0, 2), (1, 2), (2, 2)]
    assert (lines[1]["stage"], lines[1]["digest"], lines[1]["seconds"]) == ("stage 1", FIRST.digest, 2.5)


def test_curves_are_left_out_and_a_held_stage_is_reported_once():
    events = [CurvesRestarted(("training",), 0), StageHeld(), CurvePoints(1, {"training/loss": 1.0}), StageHeld()]
    assert [line["event"] for line in lines_of(*((FIRST, event) for event in events))] == ["held"]


def test_progress_is_reported_every_ten_seconds_with_its_rate(clock):
    file = io.StringIO()
    lines = JsonLines(1, file)
    for done in (0, 10, 20, 30):
        lines(FIRST, PhaseProgress("learn", "agent steps", done, 100))
        clock[0] += 5.0
    written = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(line["done"], line["per_second"], line["seconds_left"]) for line in written] == [
        (0, 0.0, None),
        (20, 2.0, 40.0),
    ]


def test_bars_print_remarks_and_failures_that_others_survive():
    file = io.StringIO()
    console = Console(file=file, width=200)
    bars = Bars(2, Progress(TextColumn("{task.fields[note]}"), console=console, auto_refresh=False))
    for event in (StageStarted(), PhaseProgress("learn", "agent steps", 1, 2, 3.0), Remark("a worker was lost")):
        bars(FIRST, event)
    bars(FIRST, StageFailed("the loss became nan", 70, others_continue=True))
    bars(SECOND, StageCached())
    printed = file.getvalue()
    assert "note: stage 1: a worker was lost" in printed
    assert "failed: stage 1: the loss became nan; stages that do not depend on it continue" in printed
