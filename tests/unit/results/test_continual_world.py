"""Continual World's metrics of stores written by hand."""

from __future__ import annotations

from pathlib import Path

import handmade
import numpy as np
import pytest
from handmade import FORGETS, KEEPS, make_store, row_of

from reaper.report.score_tables import continual_world_table
from reaper.report.scores import gather_scores
from reaper.report.text_report import markdown_report
from reaper.results.continual_world import CONTINUAL_WORLD, areas
from reaper.results.runs import RunResult, read_results


def run_of(folder: Path, matrix: handmade.Matrix = KEEPS) -> RunResult:
    (result,) = read_results(make_store(folder / "run", {"RePR": matrix}))
    return result


def values(run: RunResult) -> dict[str, float]:
    return {name: metric(run) for name, metric in CONTINUAL_WORLD.items()}


def test_performance_is_the_mean_at_the_end(tmp_path: Path):
    assert values(run_of(tmp_path))["performance"] == pytest.approx((0.8 + 0.6 + 0.95) / 3)


def test_forgetting_is_since_the_end_of_the_own_task_and_counts_the_last_one(tmp_path: Path):
    assert values(run_of(tmp_path))["forgetting"] == pytest.approx(((1 - 0.8) + (1 - 0.6) + 0) / 3)
    # a later peak does not matter: Catch ends its own training at 1 (as the teacher), peaks at 2 and ends at 1
    peak = [[10, 0, -1], [20, 100, -1], [10, 100, 1]]
    assert values(run_of(tmp_path / "peak", peak))["forgetting"] == pytest.approx(0)


def test_forward_transfer_is_the_share_of_the_room_above_the_single_curve(tmp_path: Path):
    """Every single-task DQN starts at random play (0) and is evaluated at half its score and at its score, after half
    and the whole of its training: its area is (0 + 0.5)/4 + (0.5 + 1)/4. The long-term agent starts where it was before
    the task and is evaluated once, at the end of its window."""
    by_task = CONTINUAL_WORLD["forward transfer"].by_task(run_of(tmp_path))
    # Catch: the same curve. Dodge: from 0 to 1 in a straight line, which has the same area, 0.5.
    # Shooter goes from -1 to 1, so half its score is 0.75 normalised: (0 + 0.75)/4 + (0.75 + 1)/4 = 0.625. The agent
    # goes from 0 to 0.95.
    assert by_task == pytest.approx([0, 0, (0.475 - 0.625) / 0.375])
    assert values(run_of(tmp_path))["forward transfer"] == pytest.approx(-0.4 / 3)


def test_a_head_start_is_transfer(tmp_path: Path):
    """Before it learns Dodge, the agent already scores 40 of 100: (0.4 + 1)/2 of 1, against 0.5."""
    ahead = [[10, 40, -1], *KEEPS[1:]]
    assert CONTINUAL_WORLD["forward transfer"].by_task(run_of(tmp_path, ahead))[1] == pytest.approx((0.7 - 0.5) / 0.5)


def row(step: int, score: float, task: str = "catch") -> dict:
    return {"task": task, "agent_steps": step, "scores": [score - 1, score + 1]}


def test_an_area_is_computed_by_the_trapezoidal_rule():
    rows = [row(300, 4.0), row(100, 1.0), row(400, 8.0, "dodge"), row(400, 2.0)]
    # from 3: 100 steps at (3 + 1)/2, 200 at (1 + 4)/2, 100 at (4 + 2)/2
    area = (100 * 2 + 200 * 2.5 + 100 * 3) / 400
    assert areas(["catch"], [rows], np.array([3.0])) == pytest.approx([area])


def test_a_window_without_evaluations_or_without_a_known_start_has_no_area():
    windows = [[], [row(0, 1.0, "dodge")], [row(10, 1.0, "frog")]]
    assert np.isnan(areas(["catch", "dodge", "frog"], windows, np.array([1.0, 1.0, np.nan]))).all()


def test_a_run_that_has_fewer_windows_than_tasks_has_fewer_areas():
    found = areas(["catch", "dodge"], [[row(10, 1.0)]], np.array([1.0, 1.0]))
    assert np.isnan(found).tolist() == [False, True]


def test_a_task_whose_dqn_leaves_no_room_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = run_of(tmp_path)
    run.teacher_rows[1] = [row(1, 100.0, "dodge"), row(40_000, 100.0, "dodge")]  # at its level at once
    metric = CONTINUAL_WORLD["forward transfer"]
    assert np.isnan(metric.by_task(run)).tolist() == [False, True, False]
    assert metric.counted(run) == 2
    assert metric(run) == pytest.approx((0 - 0.4) / 2)


def test_undefined_scores_and_missing_windows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handmade, "SINGLE", (0.4, 100.0, 1.0))
    run = run_of(tmp_path)
    assert [metric.counted(run) for metric in CONTINUAL_WORLD.values()] == [2, 2, 2]
    assert values(run)["forgetting"] == pytest.approx((0.4 + 0) / 2)
    run.phases[1].rows.clear()
    assert [metric.counted(run) for metric in CONTINUAL_WORLD.values()] == [2, 2, 1]
    run.phases[2].rows.clear()
    assert np.isnan(values(run)["forward transfer"])


def test_the_table_defines_every_metric(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS})
    text = markdown_report(store)
    assert row_of(text, "### Continual World", "RePR") == ["RePR", "0.78", "0.20", "-0.13", "3 of 3", "3 of 3"]
    (scores,) = gather_scores(read_results(store))
    notes = " ".join(continual_world_table(scores).notes)
    for metric in CONTINUAL_WORLD.values():
        assert f"{metric.name.capitalize()}: {metric.definition}; {metric.formula}." in notes
    assert "AUC_single is that of the single-task DQN" in notes
