"""Retention: how earlier tasks stay in the long-term agent while it learns a new one.

A method has three moments. Before a task it *recalls* what the long-term memory holds; at every update the recall
*combines* the loss of the new task with its own term; after the task the method *remembers*: it returns the tensors
that go into the next long-term memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch

from reaper.config.settings import Settings
from reaper.context import Context
from reaper.learning.knowledge import Knowledge
from reaper.memory.items import StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.state import State


class Recall:
    """What was recalled for one task. This one has nothing to add to the loss of the new task."""

    alpha: float | None = None  # the weight of the new task against the recalled ones, where a method has one

    def draw(self, count: int) -> tuple[torch.Tensor, ...]:
        """What is to be rehearsed, if anything: `count` states, and whatever `combine` has to know of each."""
        return ()

    def combine(
        self,
        new_task: torch.Tensor,
        weights: list[torch.Tensor],
        answers: torch.Tensor | None = None,
        *known: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of an update, and nothing but a function of what is given: it may become machine code. `new_task`
        has one loss an item, or is already their mean; `weights` are the student's, in the order of its parameters;
        `answers` is what it says to the drawn states, `known` what was drawn with them."""
        return new_task.mean()

    def forget(self) -> None:
        """The practice is over: gives large arrays back."""

    def state(self) -> State:
        """What a checkpoint has to hold of it: what `draw` changes, such as a random stream."""
        return {}

    def restore(self, state: State) -> None:
        """Takes up again what `state` gave."""


@dataclass
class Remembered:
    """What a method leaves behind: tensors for the next long-term memory, and losses for the report."""

    retained: dict[str, torch.Tensor] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)


class Retention(ABC):
    """A way to keep earlier tasks. Add one: subclass, and register it (CONTRIBUTING.md)."""

    needs_states = True  # whether `remember` looks at states of the new task
    trains_generator = False  # whether `remember` takes long, on a GPU, and leaves the cores alone meanwhile

    @abstractmethod
    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        """Opens the long-term memory before a new task; `previous` is its agent, frozen."""

    @abstractmethod
    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        """What to keep after a task; `memory` is the one before it, None after the first."""

    @abstractmethod
    def kept_bytes(self, settings: Settings, actions: int, tasks: int) -> int:
        """How many bytes beside the agent's weights are handed on after `tasks` tasks, at most."""

    def lacks(self, context: Context, memory: LongTermMemory) -> str | None:
        """What is not in a memory from elsewhere, perhaps of another method, that this one would recall; None: it can
        go on from there."""
        return None

    def adopt(self, generator: dict[str, torch.Tensor]) -> Remembered | None:
        """After the first task of a condition with a short-term generator: take that over instead of remembering."""
        return None
