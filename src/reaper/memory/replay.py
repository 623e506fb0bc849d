"""Experience replay: single frames in one ring a game, states rebuilt when they are sampled.

    slot      ...  t-1        t          t+1  ...
    frame          f(t-1)     f(t)       f(t+1)          the newest frame of the state in which the action was taken
    age            .          .          .               frames since the game began, up to frame_stack - 1
    action, reward, terminal                             what was done there and what came of it

A state stacks f(t-frame_stack+1) .. f(t); where the game began later than that, its first frame stands in for the frames
before it. The next state of slot t is the state of slot t+1; after a terminal it is another game's, and unused. Where
a game was cut off without a terminal (a time limit, a seam of the run) the next state never came: a draw of that slot
becomes a draw of the one before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Transitions(NamedTuple):
    states: torch.Tensor  # (N, frame_stack, size, size) uint8
    actions: torch.Tensor  # (N,) int64
    rewards: torch.Tensor  # (N,) float32
    terminals: torch.Tensor  # (N,) bool
    next_states: torch.Tensor  # (N, frame_stack, size, size) uint8


class Replay:
    """A ring of frames for each of many environments stepped at once, on the learner's device.

    Nothing here depends on a tensor's value or changes a shape, so that sampling can be captured in a CUDA graph.
    """

    def __init__(
        self, frames: int, num_envs: int, frame_size: int, frame_stack: int, device: torch.device | str
    ) -> None:
        self.slots = frames // num_envs
        self.num_envs, self.frame_stack, self.frame_size = num_envs, frame_stack, frame_size
        self.device = torch.device(device)
        total = self.slots * num_envs
        self.frames = torch.zeros(total, frame_size * frame_size, dtype=torch.uint8, device=device)
        self.ages = torch.zeros(total, dtype=torch.int64, device=device)
        self.actions = torch.zeros(total, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(total, device=device)
        self.terminals = torch.zeros(total, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(total, dtype=torch.bool, device=device)
        self.cursor = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.size = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._rows = torch.arange(num_envs, device=device) * self.slots
        self._back = torch.arange(frame_stack - 1, -1, -1, device=device)

    def add(
        self,
        frames: torch.Tensor,
        ages: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        terminals: torch.Tensor,
        truncated: torch.Tensor,
        keep: torch.Tensor,
    ) -> None:
        """One transition a game; where `keep` is false the step was only a reset, and its slot is written again."""
        at = self._rows + self.cursor
        self.frames[at] = frames.reshape(self.num_envs, -1)
        self.ages[at] = ages.clamp(max=max(self.frame_stack - 1, 1))  # at least zero and not zero are told apart
        self.actions[at] = actions
        self.rewards[at] = rewards
        self.terminals[at] = terminals
        self._cut(at, truncated & ~terminals)
        self.cursor.add_(keep).remainder_(self.slots)
        self.size.add_(keep).clamp_(max=self.slots)

    def state(self) -> dict[str, Any]:
        names = ("frames", "ages", "actions", "rewards", "terminals", "truncated", "cursor", "size")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def break_off(self) -> None:
        """Marks each game's newest transition as cut off: the environments are about to be started anew."""
        at = self._rows + (self.cursor - 1) % self.slots
        self._cut(at, (self.size > 0) & ~self.terminals[at])

    def _cut(self, at: torch.Tensor, cut: torch.Tensor) -> None:
        first = self.ages[at] == 0  # no earlier slot of the same game to draw instead: it has to end here
        self.truncated[at] = cut & ~first
        self.terminals[at] |= cut & first

    def drawable(self) -> torch.Tensor:
        """How many slots of each game can be drawn: all but the newest, whose next frame is still to come, and, once
        the ring is full, the oldest: the very oldest may be half written, the frames before the next ones are gone, and
        a slot that is cut off needs the one before it."""
        return self.size - 1 - (self.size == self.slots) * (self.frame_stack + 1)

    def ready(self) -> bool:
        """Whether every game has something to draw."""
        return bool((self.drawable() > 0).all())

    def draw(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Games and slots, drawn uniformly."""
        envs = torch.randint(self.num_envs, (count,), generator=rng, device=self.device)
        uniform = torch.rand(count, generator=rng, device=self.device, dtype=torch.float64)
        behind = 2 + (uniform * self.drawable()[envs]).long()  # 1 is the newest slot
        slots = (self.cursor[envs] - behind) % self.slots
        return envs, (slots - self.truncated[envs * self.slots + slots].long()) % self.slots

    def states_at(self, envs: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        rows = envs * self.slots
        back = torch.minimum(self._back, self.ages[rows + slots, None])  # (N, frame_stack): never across a game's start
        at = rows[:, None] + (slots[:, None] - back) % self.slots
        frames = self.frames.index_select(0, at.reshape(-1))
        return frames.view(len(envs), self.frame_stack, self.frame_size, self.frame_size)

    def sample(self, count: int, rng: torch.Generator) -> Transitions:
        envs, slots = self.draw(count, rng)
        at = envs * self.slots + slots
        return Transitions(
            self.states_at(envs, slots),
            self.actions[at],
            self.rewards[at],
            self.terminals[at],
            self.states_at(envs, (slots + 1) % self.slots),
        )

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states_at(*self.draw(count, rng))

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """At most `count` different states, in random order: what a rehearsal store takes."""
        slots = torch.arange(self.slots, device=self.device).expand(self.num_envs, -1)
        behind = (self.cursor[:, None] - slots) % self.slots
        behind = torch.where(behind == 0, self.slots, behind)
        drawable = (behind >= 2) & (behind < 2 + self.drawable()[:, None])
        at = drawable.flatten().nonzero().squeeze(1)
        chosen = at[torch.randperm(len(at), generator=rng, device=self.device)[:count]]
        parts = [self.states_at(part // self.slots, part % self.slots) for part in chosen.split(1000)]
        return torch.cat(parts)
