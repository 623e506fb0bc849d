"""The ring against a plain list of everything that happened."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper.memory.replay import Replay, Transition
from reaper.tasks.observation import ObservationSpec

FRAME = ObservationSpec((1, 2, 2))


def transition(numbers, ages, actions, terminals=None, truncated=None, is_transition=None) -> Transition:
    """One step; each environment's frame is filled with its number."""
    count = len(numbers)

    def flags(values, default: bool) -> torch.Tensor:
        return torch.tensor([default] * count if values is None else values)

    return Transition(
        frames=torch.stack([torch.full(FRAME.shape, number % 256, dtype=torch.uint8) for number in numbers]),
        ages=torch.tensor(ages),
        actions=torch.tensor(actions),
        rewards=torch.tensor([float(number) for number in numbers]),
        terminals=flags(terminals, False),
        truncated=flags(truncated, False),
        is_transition=flags(is_transition, True),
    )


class Episodes:
    """What one environment went through: every transition with its whole state, in full."""

    def __init__(self, frame_stack: int) -> None:
        self.frame_stack, self.transitions, self.number = frame_stack, [], 0
        self.reset()

    def reset(self) -> None:
        self.number += 1
        self.state = [self.number] * self.frame_stack
        self.age = 0

    def step(self, event: str, action: int) -> Transition:
        """Returns what the replay is given, and lists the transition if it has a next state or is terminal."""
        terminated, truncated = event == "terminates", event == "is truncated"
        given = transition([self.state[-1]], [self.age], [action], [terminated], [truncated])
        before, first = list(self.state), self.age == 0
        self.number += 1
        self.state = [*self.state[1:], self.number]
        self.age += 1
        if not truncated or first:
            # A truncated first step has no earlier slot to fall back on; it is stored as terminal.
            self.transitions.append((before, action, terminated or truncated, list(self.state)))
        return given


@settings(max_examples=200, deadline=None)
@given(
    frame_stack=st.integers(1, 4),
    slots=st.integers(8, 20),
    events=st.lists(st.sampled_from(["continues"] * 6 + ["terminates", "is truncated"]), min_size=8, max_size=80),
    reset_at=st.integers(0, 80),
)
def test_every_sample_is_a_transition_that_happened(frame_stack, slots, events, reset_at):
    replay = Replay(slots, 1, FRAME.stacked(frame_stack))
    episodes = Episodes(frame_stack)
    for at, event in enumerate(events):
        if at == reset_at and at > 0:
            if episodes.transitions and episodes.age > 0:  # the newest transition's next state is lost
                last = episodes.transitions.pop()
                if last[2] or episodes.age == 1:
                    episodes.transitions.append((last[0], last[1], True, last[3]))
            replay.truncate()
            episodes.reset()
        replay.add(episodes.step(event, at))
        if event != "continues":
            episodes.reset()
            replay.add(transition([255], [3], [99], is_transition=[False]))  # an autoreset: nothing of it may show
    if not replay.ready():
        return
    happened = {
        (tuple(n % 256 for n in s), a, t, None if t else tuple(n % 256 for n in s2))
        for s, a, t, s2 in episodes.transitions
    }
    batch = replay.sample(64, torch.Generator().manual_seed(0))
    for i in range(64):
        state = tuple(batch.states[i, :, 0, 0].tolist())
        terminal = bool(batch.terminals[i])
        following = None if terminal else tuple(batch.next_states[i, :, 0, 0].tolist())
        assert (state, int(batch.actions[i]), terminal, following) in happened


def test_samples_are_uniform_over_the_ring():
    replay = Replay(60, 2, FRAME.stacked(2))
    for step in range(100):  # the ring of 30 slots per environment is full
        replay.add(transition([step, step], [step, step], [step, 1000 + step]))
    actions = replay.sample(52_000, torch.Generator().manual_seed(1)).actions.numpy()
    # 30 slots less the newest and three of the oldest: 26 per environment, 52 in all, 1,000 samples each; five standard
    # deviations are 158.
    values, counts = np.unique(actions, return_counts=True)
    assert len(values) == 52
    assert set(values) == set(range(73, 99)) | set(range(1073, 1099))
    assert abs(counts - 1000).max() < 158


def test_distinct_states_are_distinct_and_sampleable():
    replay = Replay(40, 1, FRAME.stacked(2))
    for step in range(30):
        replay.add(transition([step], [step], [step]))
    newest_frames = replay.distinct_states(100, torch.Generator().manual_seed(0))[:, -1, 0, 0].tolist()
    assert sorted(newest_frames) == list(range(29))  # all but the newest, each once


def test_states_have_the_shape_of_the_observation():
    colour = ObservationSpec((3, 4, 5))
    replay = Replay(40, 1, colour.stacked(2))
    for step in range(10):
        frames = torch.full((1, *colour.shape), step, dtype=torch.uint8)
        replay.add(transition([step], [step], [step])._replace(frames=frames))
    states = replay.sample(16, torch.Generator().manual_seed(0)).states
    assert states.shape == (16, 6, 4, 5)
    assert (states[:, 3] - states[:, 2] <= 1).all()  # the older frame's channels come first


@settings(max_examples=200, deadline=None)
@given(
    n_step=st.integers(1, 4),
    slots=st.integers(10, 20),
    events=st.lists(st.sampled_from(["continues"] * 6 + ["terminates", "is truncated"]), min_size=8, max_size=80),
)
def test_n_step_samples_sum_the_rewards_of_one_episode(n_step, slots, events):
    """Every frame, action and reward is numbered by its step, so a sample's steps can be read off it."""
    replay = Replay(slots, 1, FRAME.stacked(1), n_step=n_step)
    age = 0
    for at, event in enumerate(events):
        replay.add(
            transition([at], [age], [at], [event == "terminates"], [event == "is truncated"])._replace(
                rewards=torch.tensor([2.0**-at], dtype=torch.float32)
            )
        )
        age = age + 1 if event == "continues" else 0
    if not replay.ready():
        return
    batch = replay.sample(64, torch.Generator().manual_seed(0), discount=0.5)
    for i in range(64):
        start, steps, total, terminal = int(batch.actions[i]), 0, 0.0, False
        while steps < n_step and not terminal:
            event, first = events[start + steps], steps == 0
            if event == "is truncated" and not first:
                break
            total += 0.5**steps * 2.0 ** -(start + steps)
            terminal, steps = event != "continues", steps + 1
        assert float(batch.rewards[i]) == total
        assert bool(batch.terminals[i]) == terminal
        if not terminal:
            assert float(batch.discounts[i]) == 0.5**steps
            assert int(batch.next_states[i, 0, 0, 0]) == start + steps
