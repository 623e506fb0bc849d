"""Practice: how often is updated, when the best window is kept, where exploration stands."""

import numpy as np
import pytest
import torch

from reaper.compute.optimiser import FlatWeights
from reaper.config.settings import TrainingSettings
from reaper.learning.actor import Actor, exploration
from reaper.learning.trainer import BestWeights, crossed
from reaper.tasks.arcade import Shooter


def weights() -> FlatWeights:
    return FlatWeights(torch.nn.Linear(1, 1, bias=False))


@pytest.mark.parametrize(
    ("frame", "rate"),
    [(0, 1.0), (49_999, 1.0), (500_000, 0.55), (1_000_000, 0.1), (19_000_000, 0.1)],
)
def test_exploration_is_the_papers(frame, rate):
    assert exploration(frame, TrainingSettings()) == pytest.approx(rate)


def test_the_best_window_by_score():
    flat = weights()
    best = BestWeights(flat, 10, by_score=True)
    for value, scores in [(1.0, [1.0, 3.0]), (2.0, [5.0]), (3.0, []), (4.0, [4.0, 4.0])]:
        flat.values.fill_(value)
        best.scores = scores
        best.close()
    best.put_back()
    assert flat.values.item() == 2.0


def test_the_best_window_by_loss():
    flat = weights()
    best = BestWeights(flat, 10, by_score=False)
    for value, losses in [(1.0, [4.0, 2.0]), (2.0, [1.0, 2.0]), (3.0, [2.0])]:
        flat.values.fill_(value)
        best.loss_sum += sum(losses)
        best.losses += len(losses)
        best.close()
    best.put_back()
    assert flat.values.item() == 2.0


def test_without_a_measured_window_the_last_weights_stay():
    flat = weights()
    flat.values.fill_(7.0)
    best = BestWeights(flat, 10, by_score=True)
    best.close()
    best.put_back()
    assert flat.values.item() == 7.0


@pytest.mark.parametrize(("before", "now", "expected"), [(0, 32, False), (96, 128, True), (128, 160, False)])
def test_an_interval_is_crossed_at_its_multiples(before, now, expected):
    assert crossed(128, before, now) is expected


def test_an_interval_is_crossed_as_often_as_it_fits():
    assert sum(crossed(100, frame, frame + 32) for frame in range(0, 3200, 32)) == 32


def test_scores_are_of_whole_games_and_unclipped():
    actor = Actor(Shooter(4), 2, 6, "cpu")
    actor.begin(5)
    rng = torch.Generator().manual_seed(0)
    for _ in range(199):
        actor.send(None, 1.0, rng)
        actor.receive()
        actor.settle()
        moment = actor.moment()
        assert moment.rewards.abs().max() <= 1
    assert len(actor.take_scores()) == 4
    assert moment.truncated.all()
    assert not moment.terminals.any()


def player_with(drawn: bool) -> tuple[Actor, torch.Generator]:
    actor, rng = Actor(Shooter(4), 2, 6, "cpu"), torch.Generator().manual_seed(0)
    actor.begin(5)
    if drawn:
        actor.draw(0.5, rng)
    return actor, rng


def test_actions_drawn_ahead_are_those_drawn_in_time():
    taken = []
    for drawn in (False, True):
        actor, rng = player_with(drawn)
        for _ in range(3):
            actor.send(None, 0.5, rng)
            actor.draw(0.5, rng)
            actor.draw(0.5, rng)  # only once
            actor.receive()
        taken.append(np.stack(actor.log))
    assert (taken[0] == taken[1]).all()
    assert len(np.unique(taken[0])) > 1


def test_actions_drawn_ahead_are_kept_when_the_games_are_left():
    actor, rng = player_with(drawn=True)
    state, left = actor.state(), rng.get_state()
    again, other = player_with(drawn=False)
    again.restore(state)
    other.set_state(left)
    for each, cpu_rng in ((actor, rng), (again, other)):
        each.send(None, 0.5, cpu_rng)
        each.draw(0.5, cpu_rng)
        each.receive()
        each.rest()
    assert (actor.acted == again.acted).all()
    assert torch.equal(actor.state()["drawn"]["actions"], again.state()["drawn"]["actions"])


def test_a_checkpoint_of_before_actions_were_drawn_ahead_is_taken_up():
    actor, _ = player_with(drawn=False)
    state = actor.state()
    del state["drawn"]
    again, _ = player_with(drawn=True)
    again.restore(state)
    assert again.drawn is None
