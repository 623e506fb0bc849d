"""Experience replay: one ring of single observations per environment; states are stacked when they are sampled.

    slot      ...  t-1        t          t+1  ...
    frame          f(t-1)     f(t)       f(t+1)          the newest observation when the action was chosen
    age            .          .          .               agent steps since the episode began, up to frame_stack - 1
    action, reward, terminal                             what was done there, and its outcome

A state stacks f(t-frame_stack+1) .. f(t); where the episode began later than that, its first observation takes the
place of those before it. The next state of slot t is the state of slot t+1; after a terminal that belongs to another
episode and is not used. Where an episode was truncated (by a time limit, or because all environments were reset), its
next state was never stored: a sample of that slot becomes a sample of the slot before it.

With `n_step`, a sample's next state is that of slot t+n, and its reward the discounted sum on the way; both stop at a
terminal and before a truncated slot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from reaper.equations import n_step_rewards
from reaper.tasks.observation import ObservationSpec


class Transition(NamedTuple):
    """One step of all environments, one row each, as the replay stores it."""

    frames: torch.Tensor  # (num_envs, *observation.frame.shape): the newest observation when the action was chosen
    ages: torch.Tensor  # (num_envs,) int64: agent steps since the episode began
    actions: torch.Tensor  # (num_envs,) int64
    rewards: torch.Tensor  # (num_envs,) float32, clipped (to [-1, 1] in the paper)
    terminals: torch.Tensor  # (num_envs,) bool: nothing after this step counts; a lost life is terminal, too
    truncated: torch.Tensor  # (num_envs,) bool: the episode ended without a terminal state
    is_transition: torch.Tensor  # (num_envs,) bool: false where the environment was reset (autoreset)


class TransitionBatch(NamedTuple):
    """A sample of transitions, with their whole states."""

    states: torch.Tensor  # (N, *observation.shape)
    actions: torch.Tensor  # (N,) int64
    rewards: torch.Tensor  # (N,) float32: the discounted sum of n steps
    terminals: torch.Tensor  # (N,) bool: whether a terminal is among them
    next_states: torch.Tensor  # (N, *observation.shape): after the last of them
    discounts: torch.Tensor  # (N,) float32: of the next state's value


class Replay:
    """A ring of observations for each of many environments, on the learner's device.

    `add` and `sample` read no tensor's value and change no shape, so that they can be captured in a CUDA graph.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        observation: ObservationSpec,
        device: torch.device | str = "cpu",
        n_step: int = 1,
    ) -> None:
        """`capacity` counts transitions of all environments; `observation` is that of a state."""
        self.slots, self.n_step = capacity // num_envs, n_step
        self.num_envs, self.observation, self.frame_stack = num_envs, observation, observation.frame_stack
        self.device = torch.device(device)
        total = self.slots * num_envs
        frame = observation.frame
        self.frames = torch.zeros(total, frame.size, dtype=frame.torch_dtype, device=device)
        self.ages = torch.zeros(total, dtype=torch.int64, device=device)
        self.actions = torch.zeros(total, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(total, device=device)
        self.terminals = torch.zeros(total, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(total, dtype=torch.bool, device=device)
        self.cursor = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.size = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._rows = torch.arange(num_envs, device=device) * self.slots
        self._steps_back = torch.arange(self.frame_stack - 1, -1, -1, device=device)

    def add(self, transition: Transition) -> None:
        """Stores one step. Where it was no transition, the cursor stays, and the next step overwrites its slot."""
        at = self._rows + self.cursor
        self.frames[at] = transition.frames.reshape(self.num_envs, -1)
        self.ages[at] = transition.ages.clamp(max=max(self.frame_stack - 1, 1))  # zero stays distinguishable from one
        self.actions[at] = transition.actions
        self.rewards[at] = transition.rewards
        self.terminals[at] = transition.terminals
        self._mark_truncated(at, transition.truncated & ~transition.terminals)
        self.cursor.add_(transition.is_transition).remainder_(self.slots)
        self.size.add_(transition.is_transition).clamp_(max=self.slots)

    def state(self) -> dict[str, Any]:
        names = ("frames", "ages", "actions", "rewards", "terminals", "truncated", "cursor", "size")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def truncate(self) -> None:
        """Marks the newest transition of each environment as truncated: all environments are about to be reset."""
        at = self._rows + (self.cursor - 1) % self.slots
        self._mark_truncated(at, (self.size > 0) & ~self.terminals[at])

    def _mark_truncated(self, at: torch.Tensor, truncated: torch.Tensor) -> None:
        first = self.ages[at] == 0  # no earlier slot of the same episode to sample instead: it has to be terminal
        self.truncated[at] = truncated & ~first
        self.terminals[at] |= truncated & first

    def sampleable(self) -> torch.Tensor:
        """How many slots of each environment can be sampled: all but the n newest, whose next observation is still to
        come, and, once the ring is full, the oldest: the very oldest may be half overwritten, the next ones have lost
        the frames before them, and a truncated slot needs the one before it."""
        return self.size - self.n_step - (self.size == self.slots) * (self.frame_stack + 1)

    def ready(self) -> bool:
        """Whether every environment has something to sample."""
        return bool((self.sampleable() > 0).all())

    def sample_slots(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Environments and slots, sampled uniformly."""
        envs = torch.randint(self.num_envs, (count,), generator=rng, device=self.device)
        uniform = torch.rand(count, generator=rng, device=self.device, dtype=torch.float64)
        behind = 1 + self.n_step + (uniform * self.sampleable()[envs]).long()  # 1 is the newest slot
        slots = (self.cursor[envs] - behind) % self.slots
        return envs, (slots - self.truncated[envs * self.slots + slots].long()) % self.slots

    def states_at(self, envs: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        rows = envs * self.slots
        # (N, frame_stack): never back beyond the start of the episode
        back = torch.minimum(self._steps_back, self.ages[rows + slots, None])
        at = rows[:, None] + (slots[:, None] - back) % self.slots
        frames = self.frames.index_select(0, at.reshape(-1))
        return frames.view(len(envs), *self.observation.shape)

    def sample(self, count: int, rng: torch.Generator, discount: float = 1.0) -> TransitionBatch:
        envs, slots = self.sample_slots(count, rng)
        at = [envs * self.slots + (slots + step) % self.slots for step in range(self.n_step)]
        ahead = n_step_rewards(
            [self.rewards[i] for i in at], [self.terminals[i] for i in at], [self.truncated[i] for i in at], discount
        )
        return TransitionBatch(
            states=self.states_at(envs, slots),
            actions=self.actions[at[0]],
            rewards=ahead.rewards,
            terminals=ahead.terminals,
            next_states=self.states_at(envs, (slots + ahead.steps) % self.slots),
            discounts=torch.pow(discount, ahead.steps.float()),
        )

    def sample_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return self.states_at(*self.sample_slots(count, rng))

    def distinct_states(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """At most `count` different states in random order, for a rehearsal store."""
        slots = torch.arange(self.slots, device=self.device).expand(self.num_envs, -1)
        behind = (self.cursor[:, None] - slots) % self.slots
        behind = torch.where(behind == 0, self.slots, behind)
        newest = 1 + self.n_step
        sampleable = (behind >= newest) & (behind < newest + self.sampleable()[:, None])
        at = sampleable.flatten().nonzero().squeeze(1)
        chosen = at[torch.randperm(len(at), generator=rng, device=self.device)[:count]]
        chunks = [self.states_at(chunk // self.slots, chunk % self.slots) for chunk in chosen.split(1000)]
        return torch.cat(chunks)
