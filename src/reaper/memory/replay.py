"""Experience replay: single frames in one ring a game, states rebuilt when they are sampled.

    slot      ...  t-1        t          t+1  ...
    frame          f(t-1)     f(t)       f(t+1)          the newest frame of the state in which the action was taken
    age            .          .          .               frames since the game began, up to history - 1
    action, reward, terminal                             what was done there and what came of it

A state stacks f(t-history+1) .. f(t); where the game began later than that, its first frame stands in for the frames
before it. The next state of slot t is the state of slot t+1; after a terminal it is another game's, and unused. Where
a game was cut off without a terminal (a time limit, a seam of the run) the next state never came: a draw of that slot
becomes a draw of the one before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Transitions(NamedTuple):
    states: torch.Tensor  # (N, history, size, size) uint8
    actions: torch.Tensor  # (N,) int64
    rewards: torch.Tensor  # (N,) float32
    terminals: torch.Tensor  # (N,) bool
    next_states: torch.Tensor  # (N, history, size, size) uint8


class Replay:
    """A ring of frames for each of many games played at once, on the learner's device.

    Nothing here depends on a tensor's value or changes a shape, so that sampling can be captured in a CUDA graph.
    """

    def __init__(self, frames: int, games: int, frame_size: int, history: int, device: torch.device | str) -> None:
        self.slots = frames // games
        self.games, self.history, self.frame_size = games, history, frame_size
        self.device = torch.device(device)
        total = self.slots * games
        self.frames = torch.zeros(total, frame_size * frame_size, dtype=torch.uint8, device=device)
        self.ages = torch.zeros(total, dtype=torch.int64, device=device)
        self.actions = torch.zeros(total, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(total, device=device)
        self.terminals = torch.zeros(total, dtype=torch.bool, device=device)
        self.cut_off = torch.zeros(total, dtype=torch.bool, device=device)
        self.cursor = torch.zeros(games, dtype=torch.int64, device=device)
        self.size = torch.zeros(games, dtype=torch.int64, device=device)
        self._rows = torch.arange(games, device=device) * self.slots
        self._back = torch.arange(history - 1, -1, -1, device=device)

    def add(
        self,
        frames: torch.Tensor,
        ages: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        terminals: torch.Tensor,
        cut_off: torch.Tensor,
        keep: torch.Tensor,
    ) -> None:
        """One transition a game; where `keep` is false the step was only a reset, and its slot is written again."""
        at = self._rows + self.cursor
        self.frames[at] = frames.reshape(self.games, -1)
        self.ages[at] = ages.clamp(max=max(self.history - 1, 1))  # at least zero and not zero are told apart
        self.actions[at] = actions
        self.rewards[at] = rewards
        self.terminals[at] = terminals
        self._cut(at, cut_off & ~terminals)
        self.cursor.add_(keep).remainder_(self.slots)
        self.size.add_(keep).clamp_(max=self.slots)

    def state(self) -> dict[str, Any]:
        names = ("frames", "ages", "actions", "rewards", "terminals", "cut_off", "cursor", "size")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def break_off(self) -> None:
        """Marks each game's newest transition as cut off: the games are about to be started anew."""
        at = self._rows + (self.cursor - 1) % self.slots
        self._cut(at, (self.size > 0) & ~self.terminals[at])

    def _cut(self, at: torch.Tensor, cut: torch.Tensor) -> None:
        first = self.ages[at] == 0  # no earlier slot of the same game to draw instead: it has to end here
        self.cut_off[at] = cut & ~first
        self.terminals[at] |= cut & first

    def drawable(self) -> torch.Tensor:
        """How many slots of each game can be drawn: all but the newest, whose next frame is still to come, and, once
        the ring is full, the oldest: the very oldest may be half written, the frames before the next ones are gone, and
        a slot that is cut off needs the one before it."""
        return self.size - 1 - (self.size == self.slots) * (self.history + 1)

    def ready(self) -> bool:
        """Whether every game has something to draw."""
        return bool((self.drawable() > 0).all())

    def draw(self, count: int, randomness: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Games and slots, drawn uniformly."""
        games = torch.randint(self.games, (count,), generator=randomness, device=self.device)
        uniform = torch.rand(count, generator=randomness, device=self.device, dtype=torch.float64)
        behind = 2 + (uniform * self.drawable()[games]).long()  # 1 is the newest slot
        slots = (self.cursor[games] - behind) % self.slots
        return games, (slots - self.cut_off[games * self.slots + slots].long()) % self.slots

    def states_at(self, games: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        rows = games * self.slots
        back = torch.minimum(self._back, self.ages[rows + slots, None])  # (N, history): never across a game's start
        at = rows[:, None] + (slots[:, None] - back) % self.slots
        frames = self.frames.index_select(0, at.reshape(-1))
        return frames.view(len(games), self.history, self.frame_size, self.frame_size)

    def sample(self, count: int, randomness: torch.Generator) -> Transitions:
        games, slots = self.draw(count, randomness)
        at = games * self.slots + slots
        return Transitions(
            self.states_at(games, slots),
            self.actions[at],
            self.rewards[at],
            self.terminals[at],
            self.states_at(games, (slots + 1) % self.slots),
        )

    def sample_states(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        return self.states_at(*self.draw(count, randomness))

    def distinct_states(self, count: int, randomness: torch.Generator) -> torch.Tensor:
        """At most `count` different states, in random order: what a rehearsal store takes."""
        slots = torch.arange(self.slots, device=self.device).expand(self.games, -1)
        behind = (self.cursor[:, None] - slots) % self.slots
        behind = torch.where(behind == 0, self.slots, behind)
        drawable = (behind >= 2) & (behind < 2 + self.drawable()[:, None])
        at = drawable.flatten().nonzero().squeeze(1)
        chosen = at[torch.randperm(len(at), generator=randomness, device=self.device)[:count]]
        parts = [self.states_at(part // self.slots, part % self.slots) for part in chosen.split(1000)]
        return torch.cat(parts)
