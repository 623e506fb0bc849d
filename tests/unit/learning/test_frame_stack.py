"""Stacks of observations, frame by frame, and actions chosen for them."""

import numpy as np
import pytest
import torch

from reaper.learning.actor import Actor
from reaper.learning.frame_stack import push_frames
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import Step, VectorTask


class Numbers(VectorTask):
    """Its frames are numbers that count up; environment 1 ends an episode with its third step."""

    name, num_envs, num_actions = "numbers", 2, 4
    observation = ObservationSpec((1, 2, 2))
    may_use_gpu = False

    def reset(self, seed):
        self.count = np.array([10, 20])
        return self._frames()

    def send(self, actions):
        self.sent = actions.copy()

    def receive(self):
        self.count += 1
        ends, resets = self.count == [99, 23], self.count == [99, 24]
        never = np.zeros(2, dtype=bool)
        rewards = np.where(resets, 0, [5.0, -0.25]).astype(np.float32)
        return Step(self._frames(), rewards, ends, never, np.array([self.count[0] == 12, False]), resets)

    def _frames(self):
        return np.broadcast_to(self.count[:, None, None, None], (2, 1, 2, 2)).astype(np.uint8)


@pytest.fixture
def actor():
    actor = Actor(Numbers(), frame_stack=3)
    actor.reset(0)
    return actor


def step(actor, network=None, epsilon=1.0, seed=0):
    actor.act(network, epsilon, torch.Generator().manual_seed(seed))
    outcome = actor.observe()
    actor.write_outcome(outcome)
    return actor.transition()


def stacks(actor):
    return actor.states[:, :, 0, 0].tolist()


def test_an_episode_starts_with_a_stack_of_its_first_frame(actor):
    assert stacks(actor) == [[10, 10, 10], [20, 20, 20]]
    step(actor)
    assert stacks(actor) == [[10, 10, 11], [20, 20, 21]]
    for _ in range(2):
        step(actor)
    assert stacks(actor) == [[11, 12, 13], [21, 22, 23]]
    assert actor.frames.ages.tolist() == [3, 3]
    step(actor)  # the second environment resets
    assert stacks(actor) == [[12, 13, 14], [24, 24, 24]]
    assert actor.frames.ages.tolist() == [4, 0]
    actor.reset(0)
    assert stacks(actor) == [[10, 10, 10], [20, 20, 20]]
    assert actor.frames.ages.tolist() == [0, 0]


def test_a_transition_is_what_was_seen_done_and_got(actor):
    first = step(actor)
    assert first.frames[:, 0, 0, 0].tolist() == [10, 20]
    assert first.ages.tolist() == [0, 0]
    assert first.actions.tolist() == actor.envs.sent.tolist()
    assert first.rewards.tolist() == [1.0, -0.25]  # clipped
    assert (first.terminals.tolist(), first.is_transition.tolist()) == ([False, False], [True, True])
    second = step(actor)
    assert second.terminals.tolist() == [True, False]  # a lost life
    third = step(actor)
    assert third.frames[:, 0, 0, 0].tolist() == [12, 22]
    assert third.ages.tolist() == [2, 2]
    assert third.terminals.tolist() == [False, True]
    fourth = step(actor)
    assert fourth.is_transition.tolist() == [True, False]
    assert fourth.truncated.tolist() == [False, False]


def test_colours_stay_together():
    stack = torch.tensor([[1, 2, 3, 4, 5, 6]]).reshape(1, 6, 1, 1)  # two frames of three colours
    ages = torch.tensor([7])
    push_frames(stack, ages, torch.tensor([[7, 8, 9]]).reshape(1, 3, 1, 1), torch.tensor([0]))
    assert (stack.flatten().tolist(), ages.tolist()) == ([4, 5, 6, 7, 8, 9], [8])
    push_frames(stack, ages, torch.tensor([[1, 2, 3]]).reshape(1, 3, 1, 1), torch.tensor([1]))
    assert (stack.flatten().tolist(), ages.tolist()) == ([1, 2, 3, 1, 2, 3], [0])


class Newest(torch.nn.Module):
    """Values for which the best action is the newest frame's number, modulo four."""

    def forward(self, states, compute_dtype=None):
        return torch.nn.functional.one_hot(states[:, -1, 0, 0].long() % 4, 4).float()


def test_without_exploration_actions_are_the_networks(actor):
    for expected in ([10 % 4, 20 % 4], [11 % 4, 21 % 4], [12 % 4, 22 % 4]):
        step(actor, Newest(), epsilon=0.0, seed=3)
        assert actor.envs.sent.tolist() == expected


def test_exploration_replaces_some_of_them():
    """With epsilon 0.5, and actions from a stream that is known: where to explore, and what to do there."""
    replaced = 0
    for seed in range(40):
        actor = Actor(Numbers(), frame_stack=3)
        actor.reset(0)
        rng = torch.Generator().manual_seed(seed)
        random, explore = torch.randint(4, (2,), generator=rng), torch.rand(2, generator=rng) < 0.5
        step(actor, Newest(), epsilon=0.5, seed=seed)
        assert actor.envs.sent.tolist() == torch.where(explore, random, torch.tensor([2, 0])).tolist()
        replaced += int(explore.sum())
    assert 25 < replaced < 55  # of 80


def test_without_a_network_every_action_is_random():
    taken = []
    for seed in range(100):
        actor = Actor(Numbers(), frame_stack=3)
        actor.reset(0)
        step(actor, None, epsilon=0.0, seed=seed)
        taken += actor.envs.sent.tolist()
    assert np.bincount(taken, minlength=4).min() > 30  # of 200, 50 expected
