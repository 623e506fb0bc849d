"""The curves of training: means since the last point, by hand."""

import math

import pytest
import torch

from reaper.compute.optimiser import FlatWeights
from reaper.errors import ReaperError
from reaper.learning.best_weights import BestWeights
from reaper.learning.training_log import MAX_INTERVAL, TrainingLog
from reaper.progress import CurvePoints, Progress


@pytest.fixture
def logged():
    """A log with its best weights, and the points it has logged."""
    points = []

    def send(event):
        if isinstance(event, CurvePoints):
            values = {name.removeprefix("training/"): value for name, value in event.values.items()}
            points.append((event.step, {k: v for k, v in values.items() if k != "steps_per_second"}))

    best = BestWeights(FlatWeights(torch.nn.Linear(1, 1)), 100, by_score=True)
    return TrainingLog(Progress(send), best, {"alpha": 0.5, "beta": None}), best, points


@pytest.mark.parametrize(
    ("total", "interval"), [(50, 1), (100, 1), (250, 2), (100 * MAX_INTERVAL, MAX_INTERVAL), (10**9, MAX_INTERVAL)]
)
def test_a_short_phase_has_a_hundred_points(logged, total, interval):
    log, _, _ = logged
    log.begin("learn", total)
    assert log.interval == interval


def test_a_point_is_the_mean_since_the_last_one(logged):
    log, best, points = logged
    log.begin("learn", 1000)
    log.log(10, 1.0)
    best.losses, best.loss_sum = 4, torch.tensor(8.0)
    log.add_returns([1.0])
    log.add_returns([3.0, 5.0])
    log.log(20, 0.9)
    best.losses, best.loss_sum = 6, torch.tensor(9.0)
    log.log(30, None)
    assert points == [
        (10, {"epsilon": 1.0, "alpha": 0.5}),
        (20, {"score": 3.0, "loss": 2.0, "epsilon": 0.9, "alpha": 0.5}),
        (30, {"loss": 0.5, "alpha": 0.5}),
    ]


def test_a_step_has_one_point(logged):
    log, _, points = logged
    log.log(0, 1.0)
    log.log(10, 1.0)
    log.log(10, 1.0)
    assert [step for step, _ in points] == [10]


def test_a_new_window_starts_its_sum_again(logged):
    log, best, points = logged
    best.losses, best.loss_sum = 4, torch.tensor(8.0)
    log.log(10, None)
    log.start_window()
    best.losses, best.loss_sum = 5, torch.tensor(5.0)
    log.log(20, None)
    assert [values["loss"] for _, values in points] == [2.0, 1.0]


def test_a_resumed_log_repeats_the_point_that_may_be_missing_and_no_earlier_one(logged):
    log, best, points = logged
    best.losses, best.loss_sum = 4, torch.tensor(8.0)
    log.resume(100)
    log.log(99, None)
    log.log(100, None)
    best.losses, best.loss_sum = 5, torch.tensor(11.0)
    log.log(110, None)
    assert points == [(100, {"alpha": 0.5}), (110, {"loss": 3.0, "alpha": 0.5})]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_training(logged, loss):
    log, best, points = logged
    best.losses, best.loss_sum = 1, torch.tensor(loss)
    with pytest.raises(ReaperError, match="1,000 agent steps"):
        log.log(1000, None)
    assert points == []
