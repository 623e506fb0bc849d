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
    """Every single-task DQN is evaluated at half its score and at its score, each after half of its training. The
    long-term agent is evaluated once, at the end of its window."""
    by_task = CONTINUAL_WORLD["forward transfer"].by_task(run_of(tmp_path))
    # Catch: the same curve. Dodge: areas 1 and (0.5 + 1)/2. Shooter, from -1 to 1: 0.95 and (0.75 + 1)/2.
    assert by_task == pytest.approx([0, (1 - 0.75) / 0.25, (0.95 - 0.875) / 0.125])
    assert values(run_of(tmp_path))["forward transfer"] == pytest.approx((0 + 1 + 0.6) / 3)


def test_an_area_weighs_evaluations_by_the_steps_they_stand_for():
    def row(step: int, score: float, task: str = "catch") -> dict:
        return {"task": task, "agent_steps": step, "scores": [score, score]}

    rows = [row(300, 4.0), row(100, 1.0), row(400, 8.0, "dodge"), row(400, 2.0)]
    # 100 steps at 1, 200 at 4, 100 at 2
    assert areas(["catch"], [rows]) == pytest.approx([(100 * 1 + 200 * 4 + 100 * 2) / 400])
    assert np.isnan(areas(["catch", "dodge"], [[], [row(0, 1.0, "dodge")]])).all()


def test_a_task_whose_dqn_leaves_no_room_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = run_of(tmp_path)
    run.teacher_rows[1] = [{"task": "dodge", "agent_steps": 40_000, "scores": [100.0, 100.0]}]  # at its level at once
    metric = CONTINUAL_WORLD["forward transfer"]
    assert np.isnan(metric.by_task(run)).tolist() == [False, True, False]
    assert metric.counted(run) == 2
    assert metric(run) == pytest.approx((0 + 0.6) / 2)


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
    assert row_of(text, "### Continual World", "RePR") == ["RePR", "0.78", "0.20", "0.53", "3 of 3", "3 of 3"]
    (scores,) = gather_scores(read_results(store))
    notes = " ".join(continual_world_table(scores).notes)
    for metric in CONTINUAL_WORLD.values():
        assert f"{metric.name.capitalize()}: {metric.definition}; {metric.formula}." in notes
    assert "AUC_single is that of the single-task DQN" in notes
