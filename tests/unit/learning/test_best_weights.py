"""Which window of training is the best."""

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.learning.best_weights import BestWeights


def weights() -> FlatWeights:
    return FlatWeights(torch.nn.Linear(1, 1, bias=False))


def test_the_best_window_by_score():
    flat = weights()
    best = BestWeights(flat, 10, by_score=True)
    for value, scores in [(1.0, [1.0, 3.0]), (2.0, [5.0]), (3.0, []), (4.0, [4.0, 4.0])]:
        flat.values.fill_(value)
        best.scores = scores
        best.end_window()
    best.load()
    assert flat.values.item() == 2.0


def test_the_best_window_by_loss():
    flat = weights()
    best = BestWeights(flat, 10, by_score=False)
    for value, losses in [(1.0, [4.0, 2.0]), (2.0, [1.0, 2.0]), (3.0, [2.0])]:
        flat.values.fill_(value)
        best.loss_sum += sum(losses)
        best.losses += len(losses)
        best.end_window()
    best.load()
    assert flat.values.item() == 2.0


def test_without_a_measured_window_the_last_weights_stay():
    flat = weights()
    flat.values.fill_(7.0)
    best = BestWeights(flat, 10, by_score=True)
    best.end_window()
    best.load()
    assert flat.values.item() == 7.0
