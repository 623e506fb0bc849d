"""benchmarks/learning.py: it reports the score of every episode."""

import json
import sys
from pathlib import Path

import pytest

from reaper.learning.trainer import Trainer

BENCHMARKS = str(Path(__file__).parent.parent.parent / "benchmarks")


@pytest.fixture
def learning(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(Trainer, "_acting_weights", Trainer._acting_weights)  # the script may replace it
    import learning

    return learning


def test_every_episode_is_recorded(learning, monkeypatch, tmp_path, capsys):
    num_envs, steps = 32, 199  # agent steps of an episode of Catch
    file = tmp_path / "scores.json"
    arguments = ["--task", "catch", "--steps", "7000", "--newest-weights", "--evaluate", "--json", str(file)]
    arguments += ["--set", "evaluation.episodes=2", "--set", "short-term.n-step=3"]
    monkeypatch.setattr(sys, "argv", ["learning.py", *arguments])
    learning.main()
    written = json.loads(file.read_text())
    episodes = written["episodes"]
    assert len(written["evaluation"]) == 2
    assert len(episodes) == num_envs
    assert all(step == steps * num_envs and -25 <= score <= 25 for step, score in episodes)
    assert f"in {num_envs} episodes" in capsys.readouterr().out
