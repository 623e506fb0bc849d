"""The data and labels of learning curves."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import KEEPS, atari_sequence, make_store

from reaper.report.curves import HUMAN_LEVEL, curve, learning_curves, over_seeds, spread_out
from reaper.report.scores import gather_scores
from reaper.results.runs import read_results


def test_curves_run_over_the_whole_sequence(tmp_path: Path):
    results = read_results(make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0, 1)))
    assert curve(results[0], "catch") == {20_000: 5, 40_000: 10, 80_000: 9, 120_000: 8}
    assert curve(results[0], "shooter") == {120_000: pytest.approx(0.9)}
    steps, mean, spread = over_seeds(results, "dodge")
    assert (steps.tolist(), mean.tolist(), spread.tolist()) == ([80_000, 120_000], [100, 60], [0, 0])


def test_labels_are_moved_apart_no_further_than_needed():
    assert spread_out([0.2, 0.5, 0.9], 0.1) == pytest.approx([0.2, 0.5, 0.9])
    assert spread_out([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.5, 0.6, 0.7])
    assert spread_out([0.9, 0.95, 1.0], 0.1) == pytest.approx([0.8, 0.9, 1.0]), "they stay in the panel"


def test_human_levels_are_drawn_among_the_scores_and_never_flatten_them(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, atari_sequence())
    (scores,) = gather_scores(read_results(store))
    panels = learning_curves(scores, list(scores.conditions)).axes
    labels = [axes.get_legend_handles_labels()[1] for axes in panels]
    assert [HUMAN_LEVEL in found for found in labels] == [False, True, False]  # 7845 of 10, 4 of 100, 407 of 1
    assert panels[0].get_ylim()[1] < 20
