"""The arithmetic of the analyses, worked out by hand."""

import math

import numpy as np
import pytest
import torch

from reaper.report.experiment_figures import nearest_task
from reaper.study.analyses.grid import average_of_known, choose, episode_range, min_max
from reaper.study.analyses.overlap import overlap_rows


def test_a_score_is_normalised_by_the_worst_and_the_best_episode_of_the_teacher():
    rows = [{"scores": [-3.0, 1.0]}, {"scores": [5.0, 4.0]}]
    assert episode_range(rows) == (-3.0, 5.0)
    # (3 - -3) / (5 - -3) = 6 / 8
    assert min_max(3.0, -3.0, 5.0) == 0.75
    assert min_max(-3.0, -3.0, 5.0) == 0.0
    assert min_max(7.0, -3.0, 5.0) == 1.25  # better than any episode of the teacher
    assert math.isnan(min_max(3.0, 5.0, 5.0))
    assert all(map(math.isnan, episode_range([])))


def test_the_point_with_the_best_average_over_tasks_is_chosen():
    # lambda 50: (0.9 + 0.1) / 2 = 0.5; 100: (0.6 + 0.6) / 2 = 0.6, though 50 has the best single task; 150: 0.6 again
    shares = {"50": [0.9, 0.1], "100": [0.6, 0.6], "150": [0.2, 1.0], "200": [math.nan, math.nan]}
    averages = {name: average_of_known(values) for name, values in shares.items()}
    assert averages["50"] == 0.5
    assert averages["100"] == pytest.approx(0.6)
    assert choose(averages) == "100"  # of equal ones the first
    assert average_of_known([0.4, math.nan]) == 0.4  # a task that cannot be normalised does not count
    assert choose({"a": math.nan}) is None


def test_overlap_of_three_tasks_by_hand():
    # Unit traces: catch (1, 0), dodge (1/2, 1/2), frog (0, 1).
    # catch & dodge: d^2 = ((1 + 1/2 - 2 sqrt(1/2)) + (0 + 1/2 - 0)) / 2 = 1 - sqrt(1/2), so the overlap is sqrt(1/2).
    fishers = {
        "catch": {"w": torch.tensor([4.0, 0.0])},
        "dodge": {"w": torch.tensor([3.0, 3.0])},
        "frog": {"w": torch.tensor([0.0, 0.1])},
        "still": {"w": torch.tensor([0.0, 0.0])},
    }
    found = {(row["first"], row["second"]): row["overlap"] for row in overlap_rows(fishers)}
    assert len(found) == 6
    assert found["catch", "dodge"] == pytest.approx(math.sqrt(0.5))
    assert found["catch", "frog"] == pytest.approx(0.0)
    assert found["dodge", "frog"] == pytest.approx(math.sqrt(0.5))
    assert found["frog", "still"] is None


def test_a_generated_state_belongs_to_the_task_of_the_nearest_real_one():
    def state(left, right):
        return np.array([[[left, right]]], dtype=np.uint8)  # one frame of 1 x 2 pixels

    real = {"a": np.stack([state(0, 0), state(0, 250)]), "b": np.stack([state(250, 250)])}
    # (0, 200) is nearest to (0, 250) of a; (200, 180) to (250, 250): 2500 + 4900 against 40000 + 4900
    assert nearest_task(np.stack([state(0, 200), state(200, 180)]), real) == ["a", "b"]
