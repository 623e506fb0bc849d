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


def train(best: BestWeights, *windows: tuple[float, list[float]]) -> None:
    """Trains for some window lengths: the weights at the end of each, and the scores of the episodes in it."""
    for value, scores in windows:
        best.weights.values.fill_(value)
        best.scores += scores
        best.end_window()


def chosen(best: BestWeights) -> float:
    best.load()
    return best.weights.values.item()


def test_a_window_without_enough_episodes_grows_until_it_has_them():
    best = BestWeights(weights(), 10, by_score=True, min_episodes=3)
    train(best, (1.0, [9.0]), (2.0, []), (3.0, [1.0, 2.0]), (4.0, [3.0, 3.0, 3.0]), (5.0, [8.0]))
    assert best.record() == {"by": "score", "windows": 2, "chosen": 1, "value": 4.0}  # (9 + 1 + 2) / 3, and 3
    assert chosen(best) == 3.0


def test_a_lucky_episode_is_no_evidence():
    best = BestWeights(weights(), 10, by_score=True, min_episodes=2)
    train(best, (1.0, [2.0, 2.0]), (2.0, [5.0]), (3.0, [1.0]), (4.0, [2.5, 2.5]))
    assert chosen(best) == 3.0  # the mean of 5 and 1
    assert best.record() == {"by": "score", "windows": 3, "chosen": 2, "value": 3.0}


def test_if_no_window_counts_the_last_weights_stay():
    best = BestWeights(weights(), 10, by_score=True, min_episodes=4)
    train(best, (1.0, [9.0]), (2.0, [1.0]), (3.0, [5.0]))
    assert chosen(best) == 3.0
    assert best.record() == {"by": "score", "windows": 0, "chosen": None, "value": None}


def test_a_window_by_loss_needs_no_episodes():
    best = BestWeights(weights(), 10, by_score=False, min_episodes=4)
    for value, loss in [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]:
        best.losses, best.loss_sum = 1, best.loss_sum + loss
        train(best, (value, []))
    assert chosen(best) == 2.0
    assert best.record() == {"by": "loss", "windows": 3, "chosen": 2, "value": 1.0}


def test_a_growing_window_survives_a_checkpoint():
    best = BestWeights(weights(), 10, by_score=True, min_episodes=2)
    train(best, (1.0, [1.0, 1.0]), (2.0, [9.0]))
    resumed = BestWeights(weights(), 10, by_score=True, min_episodes=2)
    resumed.restore(best.state())
    for each in (best, resumed):
        train(each, (3.0, [3.0]), (4.0, [5.0, 5.0]))
    assert resumed.record() == best.record() == {"by": "score", "windows": 3, "chosen": 2, "value": 6.0}
    assert chosen(resumed) == chosen(best) == 3.0


def test_a_checkpoint_of_0_2_is_restored():
    old = BestWeights(weights(), 10, by_score=True)
    train(old, (1.0, [7.0]))
    state = old.state()
    del state["windows"], state["chosen"]
    resumed = BestWeights(weights(), 10, by_score=True, min_episodes=2)
    resumed.restore(state)
    train(resumed, (2.0, [8.0]))
    assert resumed.record() == {"by": "score", "windows": 1, "chosen": None, "value": 7.0}
    assert chosen(resumed) == 1.0


def test_an_average_is_kept_in_place_of_the_weights():
    best = BestWeights(weights(), 10, by_score=True, average=0.75)
    best.weights.values.fill_(0.0)
    best.average.fill_(0.0)
    for value, scores in [(4.0, [1.0]), (8.0, [3.0]), (100.0, [2.0])]:
        best.weights.values.fill_(value)
        best.follow()
        best.scores = scores
        best.end_window()
    assert chosen(best) == 0.75 * 1.0 + 0.25 * 8.0


def test_an_average_survives_a_checkpoint_and_is_kept_where_no_window_counts():
    best, resumed = (BestWeights(weights(), 10, by_score=True, average=0.5) for _ in range(2))
    best.average.fill_(2.0)
    best.weights.values.fill_(6.0)
    best.follow()
    resumed.restore(best.state())
    assert chosen(resumed) == 4.0
