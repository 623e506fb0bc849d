"""The progress of an episode: lines of text without a terminal, a status line in one."""

import re

import numpy as np
import pytest
from rich.console import Console

from reaper.cli import episode_progress
from reaper.cli.episode_progress import show_episode
from reaper.cli.main import main

EPISODE = [(np.zeros((2, 2)), float(score)) for score in range(4)]


@pytest.fixture
def one_second_per_step(monkeypatch):
    """The clock advances by a second whenever it is read."""
    now = iter(range(1000))
    monkeypatch.setattr(episode_progress.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(episode_progress, "SECONDS_BETWEEN_LINES", 2.0)


def test_lines_tell_how_far_an_episode_is(one_second_per_step, capsys):
    with show_episode("Boxing, episode 1 of 3") as progress:
        assert list(progress.watch(EPISODE, then="writing a.mp4")) == EPISODE
    output = capsys.readouterr()
    lines = [re.sub(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in output.err.splitlines()]
    # Read at 0 (made), 1 (started), then once per step, and once more when a line is printed.
    assert lines == [
        "Boxing, episode 1 of 3: 0 agent steps, score 0, 0 agent steps/s",
        "Boxing, episode 1 of 3: 2 agent steps, score 2, 0 agent steps/s",
        "Boxing, episode 1 of 3: writing a.mp4",
    ]
    assert output.out == ""


def test_a_quick_episode_prints_no_line(capsys):
    with show_episode("Catch, episode 1 of 3") as progress:
        assert list(progress.watch(EPISODE)) == EPISODE
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_status_line_that_is_gone_afterwards(one_second_per_step, monkeypatch, capsys):
    def terminal(stderr):
        return Console(stderr=stderr, force_terminal=True, width=100, _environ={"TERM": "xterm"})

    monkeypatch.setattr(episode_progress, "Console", terminal)
    with show_episode("Boxing, episode 1 of 3") as progress:
        assert isinstance(progress._status, episode_progress.Status)
        list(progress.watch(EPISODE))
        assert progress._status.status == "Boxing, episode 1 of 3: 3 agent steps, score 3, 0 agent steps/s"
    assert not re.search(r"^20\d\d-", capsys.readouterr().err, re.MULTILINE)


def test_play_reports_each_episode(tiny_run, monkeypatch, capfd):
    monkeypatch.setattr(episode_progress, "SECONDS_BETWEEN_LINES", 0.0)
    words = ["play", str(tiny_run), "--condition", "RePR", "--task", "catch", "--episodes", "2"]
    assert main(words) == 0
    output = capfd.readouterr()
    for number in (1, 2):
        assert f"Catch, episode {number} of 2: 10 agent steps, score" in output.err
    assert [line.partition(":")[0] for line in output.out.splitlines()] == ["Catch, episode 1", "Catch, episode 2"]
