"""The progress of a study as lines of text, as JSON lines and as bars."""

import io
import json
import re

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from reaper.cli import display
from reaper.cli.display import Bars, JsonLines, show_progress
from reaper.cli.plain_log import PlainLog
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
    StageStopped,
)
from reaper.study.kinds.base import Stage

FIRST, SECOND, THIRD = (
    Stage({"kind": "evaluate", "number": number, "parents": {}}, f"stage {number}") for number in (1, 2, 3)
)


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


# -- lines of text


def text_of(*events, stages=(FIRST, SECOND)):
    """The lines without their date and time."""
    file = io.StringIO()
    log = PlainLog(stages, file)
    for stage, event in events:
        log(stage, event)
    log.report_cached()
    return [line[20:] for line in file.getvalue().splitlines()]


def test_text_tells_the_start_and_the_end_of_each_stage_and_counts():
    progress = PhaseProgress("learn", "agent steps", 50, 100, -2.0)
    events = (StageStarted(), progress, Remark("a worker was lost"), StageFinished({"seconds": 150.0}))
    assert text_of(*((FIRST, event) for event in events), (SECOND, StageStarted("node-7"))) == [
        "stage 1 of 2, stage 1: started",
        "stage 1 of 2, stage 1: note: a worker was lost",
        "stage 1 of 2, stage 1: finished in 2 min, last score -2.0; 1 of 2 stages are finished",
        "stage 2 of 2, stage 2: started on node-7; whole study: about 2 min left",
    ]


def test_a_line_of_text_begins_with_date_and_time():
    file = io.StringIO()
    PlainLog([FIRST], file)(FIRST, StageStarted())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d stage 1 of 1, stage 1: started\n", file.getvalue())


def test_text_tells_progress_score_and_time_left_every_thirty_seconds(clock):
    file = io.StringIO()
    log = PlainLog([FIRST, SECOND], file)
    log(FIRST, StageStarted())
    for done in range(0, 100, 10):  # one event every ten seconds, one agent step per second
        log(FIRST, PhaseProgress("learn", "agent steps", done, 200, 1.25 if done > 40 else None))
        clock[0] += 10.0
    assert [line[20:].removeprefix("stage 1 of 2, stage 1: ") for line in file.getvalue().splitlines()] == [
        "started",
        "learn 15%, 1 agent steps/s, 2 min left; whole study: at least 2 min left",
        "learn 30%, score 1.2, 1 agent steps/s, 2 min left; whole study: at least 2 min left",
        "learn 45%, score 1.2, 1 agent steps/s, 1 min left; whole study: at least 1 min left",
    ]


def test_many_running_stages_are_each_reported_less_often(clock):
    stages = [Stage({"kind": "evaluate", "number": n, "parents": {}}, f"stage {n}") for n in range(40)]
    file = io.StringIO()
    log = PlainLog(stages, file)
    for stage in stages:
        log(stage, StageStarted())
    for _ in range(60):  # ten minutes
        clock[0] += 10.0
        for stage in stages:
            log(stage, PhaseProgress("learn", "agent steps", 1, 2))
    assert len(file.getvalue().splitlines()) == 40 + 40 * 2  # every 30 s * 40 / 4


def test_stages_that_were_finished_before_are_one_line():
    events = ((FIRST, StageCached()), (SECOND, StageCached()), (THIRD, StageStarted()))
    assert text_of(*events, stages=(FIRST, SECOND, THIRD)) == [
        "2 of 3 stages were finished before; 1 are left",
        "stage 3 of 3, stage 3: started",
    ]
    assert text_of((FIRST, StageCached()), (SECOND, StageCached())) == [
        "2 of 2 stages were finished before; 0 are left"
    ]


def test_text_tells_what_happened_to_stages_that_end_early():
    alone, others = StageFailed("no space", 74), StageFailed("the loss became nan", 70, others_continue=True)
    events = (StageStarted(), StageHeld(), StageHeld(), StageStarted(), StageStopped("stopped", 75), alone, others)
    assert [line.partition("stage 1: ")[2] for line in text_of(*((FIRST, event) for event in events))] == [
        "started",
        "another process is working on it",  # and nothing more until there is progress
        "stopped; its state is saved",
        "failed: the loss became nan; stages that do not depend on it continue",
    ]


class Unread(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_a_log_that_nobody_reads_stops_no_training():
    PlainLog([FIRST], Unread())(FIRST, StageStarted())
    JsonLines(1, Unread())(FIRST, StageStarted())


# -- which of them


@pytest.mark.parametrize(
    ("log", "terminal", "expected"),
    [
        ("auto", False, "2"),  # a year
        ("plain", True, "2"),
        ("json", False, "{"),
        ("json", True, "{"),
        ("auto", True, ""),
        ("bars", False, ""),
    ],
)
def test_text_is_the_default_unless_there_is_a_terminal(log, terminal, expected, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1") if terminal else monkeypatch.delenv("FORCE_COLOR", raising=False)
    with show_progress([FIRST], log) as listener:
        assert isinstance(listener, Bars) == (expected == "")
        listener(FIRST, StageStarted())
    if expected:
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(expected)


def test_quiet_shows_nothing(capsys):
    with show_progress([FIRST], "json", quiet=True) as listener:
        listener(FIRST, StageStarted())
    assert capsys.readouterr().err == ""
