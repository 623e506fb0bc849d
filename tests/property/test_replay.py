"""The ring against a plain list of everything that happened."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper.memory.replay import Replay

SIZE = 2


def frame(number: int) -> torch.Tensor:
    return torch.full((SIZE, SIZE), number % 256, dtype=torch.uint8)


class Diary:
    """What one game went through: every transition with its whole state, written down in full."""

    def __init__(self, history: int) -> None:
        self.history, self.transitions, self.number = history, [], 0
        self.begin()

    def begin(self) -> None:
        self.number += 1
        self.state = [self.number] * self.history
        self.age = 0

    def step(self, kind: str, action: int):
        """Returns what the replay is told, and keeps the transition if it has a next state or a terminal."""
        told = (self.state[-1], self.age, action, kind == "dies", kind == "runs out")
        before = list(self.state)
        self.number += 1
        self.state = [*self.state[1:], self.number]
        self.age += 1
        if kind != "runs out" or told[1] == 0:
            # A cut-off first frame has no earlier slot to fall back on; it is kept as a terminal.
            terminal = kind == "dies" or kind == "runs out"
            self.transitions.append((before, action, terminal, list(self.state)))
        return told


@settings(max_examples=200, deadline=None)
@given(
    history=st.integers(1, 4),
    slots=st.integers(8, 20),
    events=st.lists(st.sampled_from(["goes on"] * 6 + ["dies", "runs out"]), min_size=8, max_size=80),
    seam=st.integers(0, 80),
)
def test_every_draw_is_a_transition_that_happened(history, slots, events, seam):
    replay = Replay(slots, 1, SIZE, history, "cpu")
    diary = Diary(history)

    def tell(number, age, action, dies, runs_out, keep):
        replay.add(
            frame(number)[None],
            torch.tensor([age]),
            torch.tensor([action]),
            torch.tensor([float(number)]),
            torch.tensor([dies]),
            torch.tensor([runs_out]),
            torch.tensor([keep]),
        )

    for at, kind in enumerate(events):
        if at == seam and at > 0:
            if diary.transitions and diary.age > 0:  # the newest transition's next state is lost
                last = diary.transitions.pop()
                if last[2] or diary.age == 1:
                    diary.transitions.append((last[0], last[1], True, last[3]))
            replay.break_off()
            diary.begin()
        tell(*diary.step(kind, at), True)
        if kind != "goes on":
            diary.begin()
            tell(255, 3, 99, False, False, False)  # the step on which the game was only reset: nothing of it may show
    if not replay.ready():
        return
    happened = {
        (tuple(n % 256 for n in s), a, t, None if t else tuple(n % 256 for n in s2))
        for s, a, t, s2 in diary.transitions
    }
    batch = replay.sample(64, torch.Generator().manual_seed(0))
    for i in range(64):
        state = tuple(batch.states[i, :, 0, 0].tolist())
        terminal = bool(batch.terminals[i])
        following = None if terminal else tuple(batch.next_states[i, :, 0, 0].tolist())
        assert (state, int(batch.actions[i]), terminal, following) in happened


def test_draws_are_uniform_over_the_ring():
    replay = Replay(60, 2, SIZE, 2, "cpu")
    for step in range(100):  # the ring of 30 slots a game is full
        replay.add(
            torch.stack([frame(step), frame(step)]),
            torch.tensor([step, step]),
            torch.tensor([step, 1000 + step]),
            torch.zeros(2),
            torch.zeros(2, dtype=torch.bool),
            torch.zeros(2, dtype=torch.bool),
            torch.ones(2, dtype=torch.bool),
        )
    actions = replay.sample(52_000, torch.Generator().manual_seed(1)).actions.numpy()
    # 30 slots less the newest and three of the oldest: 26 a game, 52 in all, 1,000 draws each; five deviations are 158.
    values, counts = np.unique(actions, return_counts=True)
    assert len(values) == 52
    assert set(values) == set(range(73, 99)) | set(range(1073, 1099))
    assert abs(counts - 1000).max() < 158


def test_distinct_states_are_distinct_and_drawable():
    replay = Replay(40, 1, SIZE, 2, "cpu")
    for step in range(30):
        replay.add(
            frame(step)[None],
            torch.tensor([step]),
            torch.tensor([step]),
            torch.zeros(1),
            torch.zeros(1, dtype=torch.bool),
            torch.zeros(1, dtype=torch.bool),
            torch.ones(1, dtype=torch.bool),
        )
    newest_frames = replay.distinct_states(100, torch.Generator().manual_seed(0))[:, -1, 0, 0].tolist()
    assert sorted(newest_frames) == list(range(29))  # all but the newest, each once
