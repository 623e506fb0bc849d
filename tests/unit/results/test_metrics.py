"""Metrics of small score matrices, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from reaper.results import metrics

# After each task (rows) on each task (columns), already normalised.
MATRIX = np.array(
    [
        [1.0, 0.1, 0.0],
        [0.5, 0.9, 0.3],
        [0.7, 0.6, 0.8],
    ]
)


def test_normalised_puts_random_play_at_zero_and_the_single_task_agent_at_one():
    # (5 - 2) / (12 - 2), and below random play it is negative
    np.testing.assert_allclose(metrics.normalised(np.array([2.0, 12.0, 5.0, 0.0]), 2.0, 12.0), [0, 1, 0.3, -0.2])


def test_normalised_works_on_a_matrix_column_by_column():
    scores = np.array([[10.0, 0.0], [5.0, 20.0]])
    random, single = np.array([0.0, -20.0]), np.array([10.0, 20.0])
    np.testing.assert_allclose(metrics.normalised(scores, random, single), [[1, 0.5], [0.5, 1]])


@pytest.mark.parametrize("single", [2.0, 1.0, np.nan])
def test_normalised_is_nan_where_the_single_task_agent_is_no_better_than_random(single: float):
    assert np.isnan(metrics.normalised(5.0, 2.0, single))


def test_average_is_of_the_last_row():
    assert metrics.average(MATRIX) == pytest.approx((0.7 + 0.6 + 0.8) / 3)


def test_forgetting_is_measured_from_the_best_score():
    # task 0: best of 1.0 and 0.5, now 0.7; task 1: best 0.9, now 0.6; the last task cannot have been forgotten
    assert metrics.forgetting(MATRIX) == pytest.approx(((1.0 - 0.7) + (0.9 - 0.6)) / 2)


def test_forgetting_sees_a_peak_that_backward_transfer_does_not():
    matrix = np.array([[0.5, 0, 0], [1.0, 1.0, 0], [0.5, 1.0, 1.0]])
    assert metrics.forgetting(matrix) == pytest.approx((0.5 + 0) / 2)
    assert metrics.backward_transfer(matrix) == pytest.approx(0)


def test_backward_transfer_is_measured_from_when_a_task_was_learnt():
    assert metrics.backward_transfer(MATRIX) == pytest.approx(((0.7 - 1.0) + (0.6 - 0.9)) / 2)


def test_forward_transfer_is_measured_just_before_a_task_is_learnt():
    assert metrics.forward_transfer(MATRIX) == pytest.approx((0.1 + 0.3) / 2)


def test_retained_is_the_share_left_of_the_earlier_tasks():
    assert metrics.retained(MATRIX) == pytest.approx((0.7 + 0.6) / (1.0 + 0.9))
    assert np.isnan(metrics.retained(np.array([[0.0, 0.0], [0.0, 1.0]])))  # nothing was learnt


@pytest.mark.parametrize("name", sorted(metrics.METRICS.keys() - {"average"}))
def test_one_task_has_nothing_to_forget_and_nothing_to_transfer(name: str):
    assert np.isnan(metrics.METRICS[name](np.array([[1.0]])))


@pytest.mark.parametrize("name", metrics.METRICS)
def test_an_unfinished_run_has_no_metrics(name: str):
    unfinished = MATRIX.copy()
    unfinished[-1] = np.nan
    value = metrics.METRICS[name](unfinished)
    assert np.isnan(value) != (name == "forward transfer")  # which needs only the rows before the last


def test_tasks_without_normalised_scores_are_left_out():
    matrix = MATRIX.copy()
    matrix[:, 1] = np.nan
    assert metrics.counted(matrix).tolist() == [0, 2]
    assert metrics.average(matrix) == pytest.approx((0.7 + 0.8) / 2)
    assert metrics.forgetting(matrix) == pytest.approx(1.0 - 0.7)
    assert metrics.backward_transfer(matrix) == pytest.approx(0.7 - 1.0)
    assert metrics.forward_transfer(matrix) == pytest.approx(0.3)
    assert metrics.retained(matrix) == pytest.approx(0.7)


@pytest.mark.parametrize("name", metrics.METRICS)
@pytest.mark.filterwarnings("error")
def test_without_any_normalised_score_no_metric_is_defined(name: str):
    assert np.isnan(metrics.METRICS[name](np.full((3, 3), np.nan)))


def test_the_interval_of_a_mean():
    # sample variance ((1 + 1 + 0) / 2) = 1, standard error 1 / sqrt(3)
    low, high = metrics.mean_interval(np.array([1.0, 2.0, 3.0]))
    assert (low, high) == (pytest.approx(2 - 1.96 / 3**0.5), pytest.approx(2 + 1.96 / 3**0.5))
    assert metrics.mean_interval(np.array([1.0, 3.0])) == pytest.approx((2 - 1.96, 2 + 1.96))  # two are enough
    assert metrics.mean_interval(np.array([5.0])) == (-np.inf, np.inf)


@pytest.mark.parametrize(("single", "better"), [(3.0, True), (2.0, False), (-9.0, False)])
def test_better_than_random_play_means_that_the_intervals_do_not_overlap(single: float, better: bool):
    episodes = np.array([-1.0, 1.0, -1.0, 1.0])  # standard error 1.155 / 2, so plus or minus 1.13
    assert metrics.better_than_random(episodes + single, episodes) is better


def test_bootstrap_of_one_seed_is_that_seed():
    assert metrics.bootstrap_interval([0.4]) == (0.4, 0.4)


def test_bootstrap_of_two_seeds():
    # Resampled means are 0, 0.5 and 1 with weights 1/4, 1/2 and 1/4: 95 % of them reach from 0 to 1, 40 % do not.
    assert metrics.bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)
    assert metrics.bootstrap_interval([0.0, 1.0], level=0.4) == (0.5, 0.5)


def test_bootstrap_is_repeatable_and_narrows_with_more_seeds():
    few, many = [0.2, 0.8, 0.5], [0.2, 0.8, 0.5] * 20
    low, high = metrics.bootstrap_interval(few)
    assert metrics.bootstrap_interval(few) == (low, high)
    narrow_low, narrow_high = metrics.bootstrap_interval(many)
    assert low < narrow_low < 0.5 < narrow_high < high


@pytest.mark.parametrize(("seeds", "point"), [(2, 12.706), (3, 4.303), (31, 2.042), (32, 1.96)])
def test_student_s_t_has_a_point_per_number_of_seeds(seeds: int, point: float):
    """Points from a printed table; the normal distribution's from 32 seeds on."""
    values = np.arange(seeds, dtype=float)
    low, high = metrics.t_interval(values.tolist())
    assert (high - low) / 2 == pytest.approx(point * values.std(ddof=1) / np.sqrt(seeds))
    assert (high + low) / 2 == pytest.approx((seeds - 1) / 2)


def test_a_bootstrap_interval_is_of_the_mean_over_seeds():
    assert metrics.bootstrap_interval([2.5]) == (2.5, 2.5)
    low, high = metrics.bootstrap_interval([0.0, 1.0])
    assert (low, high) == (0.0, 1.0)  # of two values, a quarter of the resamples are twice the same
    # A mean of 100 values has a standard error of 0.0289: 1.96 of them either way, less for a narrower interval.
    values = np.linspace(0, 1, 100)
    low, high = metrics.bootstrap_interval(values)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.0292, 0.5 + 1.96 * 0.0292), abs=0.003)
    low, high = metrics.bootstrap_interval(values, level=0.5)
    assert (low, high) == pytest.approx((0.5 - 0.6745 * 0.0292, 0.5 + 0.6745 * 0.0292), abs=0.003)


def test_better_than_random_means_that_the_intervals_do_not_even_touch():
    random = np.array([1.0, 1.0])
    assert metrics.better_than_random(np.array([1.5, 1.5]), random)
    assert not metrics.better_than_random(random, random)
    # 1.96 either way of 4: from 2.04, which is above 2 and below 2.1
    assert metrics.better_than_random(np.array([3.0, 5.0]), np.array([2.0, 2.0]))
    assert not metrics.better_than_random(np.array([3.0, 5.0]), np.array([2.1, 2.1]))
    assert not metrics.better_than_random(np.array([np.nan, 5.0]), random)


@pytest.mark.parametrize(("learnt", "share"), [(0.5, 0.4), (0.02, 10.0), (0.01, np.nan), (-0.5, np.nan)])
def test_retained_needs_more_than_a_hundredth_to_have_been_learnt(learnt: float, share: float):
    matrix = np.array([[learnt, 0.0], [0.2, 1.0]])
    assert metrics.retained(matrix) == pytest.approx(share, nan_ok=True)


def test_tasks_known_before_a_run_began_count_as_learnt_at_its_first_row():
    # The run continues from a memory that knew tasks 0 and 1, so row 0 is unknown.
    matrix = np.array([[np.nan] * 3, [0.5, 0.9, 0.3], [0.7, 0.6, 0.8]])
    assert metrics.forgetting(matrix, 1) == pytest.approx(((0.5 - 0.7) + (0.9 - 0.6)) / 2)
    assert metrics.backward_transfer(matrix, 1) == pytest.approx(((0.7 - 0.5) + (0.6 - 0.9)) / 2)
    assert metrics.forward_transfer(matrix, 1) == pytest.approx(0.3)  # task 1 was not learnt here
    assert metrics.retained(matrix, 1) == pytest.approx((0.7 + 0.6) / (0.5 + 0.9))


def test_a_bootstrap_interval_is_that_of_5000_resamples():
    """Exact, since published intervals are compared with new ones."""
    sample = np.sqrt(np.arange(12))  # hardly any two resamples have the same mean
    means = np.sort(sample[np.random.default_rng(0).integers(12, size=(5_000, 12))].mean(axis=1))
    # Quantiles 0.025 and 0.975 of 5,000 values lie at places 124.975 and 4,874.025, between two of them.
    low = means[124] + 0.975 * (means[125] - means[124])
    high = means[4874] + 0.025 * (means[4875] - means[4874])
    assert metrics.bootstrap_interval(sample) == pytest.approx((low, high), abs=1e-12)
