"""benchmarks/learning.py: the scores it tells are those of the games that ended."""

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


def test_every_game_that_ends_is_noted(learning, monkeypatch, tmp_path, capsys):
    games, steps = 32, 199  # a game of Catch has so many
    file = tmp_path / "scores.json"
    words = ["--task", "catch", "--frames", "7000", "--newest-weights", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", ["learning.py", *words])
    learning.main()
    ended = json.loads(file.read_text())
    assert len(ended) == games
    assert all(frame == steps * games and -25 <= score <= 25 for frame, score in ended)
    assert f"in {games} games" in capsys.readouterr().out
