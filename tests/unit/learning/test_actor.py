"""The actor: episodes, transitions, and exact resuming by replaying its actions."""

import numpy as np
import pytest
import torch

from reaper.errors import UserError
from reaper.learning.actor import Actor
from reaper.tasks.arcade import ARCADE, ArcadeTask
from reaper.tasks.task import EnvOptions


def new_actor(*, sampled: bool = False) -> tuple[Actor, torch.Generator]:
    envs = ARCADE["shooter"].open(EnvOptions(4, ArcadeTask.observation))
    actor, rng = Actor(envs, frame_stack=2), torch.Generator().manual_seed(0)
    actor.reset(5)
    if sampled:
        actor.exploration.sample(0.5, rng)
    return actor, rng


def test_returns_are_of_whole_episodes_and_unclipped():
    actor, rng = new_actor()
    for _ in range(199):
        actor.act(None, 1.0, rng)
        outcome = actor.observe()
        actor.write_outcome(outcome)
        actor.statistics.add(outcome.step)
        transition = actor.transition()
        assert transition.rewards.abs().max() <= 1
    assert len(actor.statistics.take()) == 4
    assert transition.truncated.all()
    assert not transition.terminals.any()


def test_actions_sampled_ahead_are_those_sampled_in_time():
    taken = []
    for sampled in (False, True):
        actor, rng = new_actor(sampled=sampled)
        for _ in range(3):
            actor.act(None, 0.5, rng)
            actor.exploration.sample(0.5, rng)
            actor.observe()
        taken.append(np.stack(actor.action_log))
    assert (taken[0] == taken[1]).all()
    assert len(np.unique(taken[0])) > 1


def test_actions_sampled_ahead_are_saved():
    actor, rng = new_actor(sampled=True)
    state, rng_state = actor.state(), rng.get_state()
    resumed, other_rng = new_actor()
    resumed.restore(state)
    other_rng.set_state(rng_state)
    for each, own_rng in ((actor, rng), (resumed, other_rng)):
        each.act(None, 0.5, own_rng)
        each.exploration.sample(0.5, own_rng)
        each.observe()
        each.leave()
    assert (actor.actions == resumed.actions).all()
    saved, restored = (each.state()["random_actions"]["actions"] for each in (actor, resumed))
    assert torch.equal(saved, restored)


def test_a_checkpoint_without_actions_sampled_ahead_is_restored():
    state = new_actor()[0].state()
    del state["random_actions"]
    resumed, _ = new_actor(sampled=True)
    resumed.restore(state)
    assert resumed.exploration.sampled is None


def test_restoring_replays_the_actions():
    actor, rng = new_actor()
    for _ in range(7):
        actor.act(None, 1.0, rng)
        actor.statistics.add(actor.observe().step)
    resumed, _ = new_actor()
    resumed.restore(actor.state())
    assert torch.equal(resumed.states, actor.states)
    assert torch.equal(resumed.frames.ages, actor.frames.ages)
    assert (resumed.statistics.running == actor.statistics.running).all()
    assert len(resumed.action_log) == 7


def test_a_non_deterministic_environment_raises_a_one_line_error():
    actor, rng = new_actor()
    actor.act(None, 1.0, rng)
    actor.observe()
    state = actor.state()
    state["stack"] = state["stack"] + 1
    with pytest.raises(UserError, match=r"is not deterministic.* delete the stage's folder") as caught:
        new_actor()[0].restore(state)
    assert "\n" not in str(caught.value)
