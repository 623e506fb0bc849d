"""The replay by hand: rings of one or two environments whose frames are numbers. Any sequence: tests/property."""

import pytest
import torch

from reaper.memory.replay import Replay, Transition
from reaper.tasks.observation import ObservationSpec, vector_spec

NUMBERS = vector_spec(1)


def filled(events, slots=8, frame_stack=1, n_step=1, num_envs=1):
    """A replay after these events of every environment; the frame of step t is 10 t, plus the environment."""
    replay = Replay(slots * num_envs, num_envs, NUMBERS.stacked(frame_stack), n_step=n_step)
    age = 0
    for number, event in enumerate(events):
        replay.add(
            Transition(
                frames=torch.arange(num_envs, dtype=torch.float32)[:, None] + 10 * number,
                ages=torch.full((num_envs,), age),
                actions=torch.full((num_envs,), number % 3),
                rewards=torch.full((num_envs,), float(number)),
                terminals=torch.full((num_envs,), event == "T"),
                truncated=torch.full((num_envs,), event in "XT"),
                is_transition=torch.full((num_envs,), event != "A"),
            )
        )
        age = 0 if event == "A" else age + 1
    return replay


def test_a_step_that_is_no_transition_is_overwritten():
    replay = filled("..TA..")
    assert replay.frames[:, 0].tolist() == [0, 10, 20, 40, 50, 0, 0, 0]
    assert (replay.cursor.tolist(), replay.size.tolist()) == ([5], [5])
    assert replay.rewards.tolist()[:5] == [0, 1, 2, 4, 5]
    assert replay.actions.tolist()[:5] == [0, 1, 2, 1, 2]


def test_a_terminal_at_a_time_limit_is_a_terminal():
    replay = filled("..T.X.")
    assert replay.terminals.tolist()[:6] == [False, False, True, False, False, False]
    assert replay.truncated.tolist()[:6] == [False, False, False, False, True, False]


def test_a_reset_of_all_environments_truncates_the_newest_transitions():
    replay = filled("....")
    replay.truncate()
    assert replay.truncated.tolist()[:4] == [False, False, False, True]
    assert not replay.terminals.any()
    ended = filled("...T")
    ended.truncate()
    assert not ended.truncated.any(), "it has ended already"
    empty = filled("")
    empty.truncate()
    assert not (empty.truncated | empty.terminals).any()


def test_a_truncated_first_step_is_terminal_for_lack_of_one_before_it():
    replay = filled("..XA.")  # the newest is the first step of an episode
    replay.truncate()
    assert replay.truncated.tolist()[:5] == [False, False, True, False, False]
    assert replay.terminals.tolist()[:5] == [False, False, False, True, False]


def test_a_ring_overwrites_its_oldest_and_leaves_room_for_stacks():
    """Of eight slots: one waits for its next state; once full, the oldest and those that lost their frames go, too."""
    counts = [int(filled("." * steps, frame_stack=2).sampleable()) for steps in (0, 1, 2, 7, 8, 20)]
    assert counts == [-1, 0, 1, 6, 4, 4]
    assert [filled("." * steps, frame_stack=2).ready() for steps in (1, 2)] == [False, True]
    assert int(filled("." * 20, n_step=3).sampleable()) == 8 - 3 - 2


@pytest.mark.parametrize(("steps", "first", "last"), [(5, 0, 3), (8, 2, 6), (20, 14, 18)])
def test_samples_are_transitions_whose_states_and_next_states_are_stored(steps, first, last):
    replay = filled("." * steps)
    batch = replay.sample(400, torch.Generator().manual_seed(0), 0.5)
    times = (batch.states[:, 0] / 10).long()
    assert sorted(times.unique().tolist()) == list(range(first, last + 1))
    assert torch.equal(batch.next_states[:, 0], batch.states[:, 0] + 10)
    assert torch.equal(batch.rewards, times.float())
    assert torch.equal(batch.actions, times % 3)
    assert batch.discounts.unique().tolist() == [0.5]


def test_a_sample_of_a_truncated_slot_is_one_of_the_slot_before():
    replay = filled("..XA...")
    times = (replay.sample(300, torch.Generator().manual_seed(0)).states[:, 0] / 10).long()
    assert sorted(times.unique().tolist()) == [0, 1, 4, 5]
    assert (times == 1).float().mean() > 0.3  # of five slots, two become this one


def test_stacks_begin_with_the_episode():
    replay = filled("..TA...", frame_stack=3)
    states = replay.states_at(torch.zeros(6, dtype=torch.int64), torch.arange(6))
    assert states.tolist() == [[0, 0, 0], [0, 0, 10], [0, 10, 20], [40, 40, 40], [40, 40, 50], [40, 50, 60]]


def test_n_steps_stop_at_a_terminal_and_before_a_truncated_slot():
    replay = filled("...T.A.....", n_step=2, slots=12)
    batch = replay.sample(600, torch.Generator().manual_seed(0), 0.5)
    found = {int(state / 10): (float(reward), bool(terminal), float(discount)) for state, reward, terminal, discount
             in zip(batch.states[:, 0], batch.rewards, batch.terminals, batch.discounts, strict=True)}  # fmt: skip
    assert found[0] == (0 + 0.5 * 1, False, 0.25)
    assert found[2] == (2 + 0.5 * 3, True, 0.25)
    assert found[3] == (3, True, 0.5)
    assert max(found) == 8


def test_distinct_states_are_each_sampleable_one_once():
    replay = filled("." * 20, num_envs=2)
    rng = torch.Generator().manual_seed(0)
    states = replay.distinct_states(100, rng)[:, 0].tolist()
    # Of steps 12 to 19, the last has no next state, and the two oldest are in danger; of both environments.
    assert sorted(states) == sorted(10.0 * step + env for step in range(14, 19) for env in (0, 1))
    assert states != sorted(states)
    assert len(replay.distinct_states(3, rng)) == 3


def test_capacity_is_shared_by_all_environments():
    replay = Replay(11, 2, ObservationSpec((4, 2, 2), frame_stack=4))
    assert (replay.slots, replay.frames.shape, replay.frames.dtype) == (5, (10, 4), torch.uint8)


def test_a_state_is_restored():
    replay, other = filled("..TA..X", frame_stack=2), filled("", frame_stack=2)
    other.restore({name: tensor.clone() for name, tensor in replay.state().items()})
    for name, tensor in replay.state().items():
        assert torch.equal(getattr(other, name), tensor), name
