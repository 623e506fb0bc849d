"""Retention: how earlier tasks stay in the long-term agent while it learns a new one.

A method has three moments. Before a task it *recalls* what the long-term memory holds; at every update the recall
*combines* the loss of the new task with its own term; after the task the method *remembers*: it returns the tensors
that go into the next long-term memory.

A method is a frozen dataclass whose fields are its hyper-parameters. To add one, subclass `Retention` in a new file
and register the class (retention/__init__.py, or `reaper.register_retention`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from reaper.config.settings import Settings
from reaper.context import Context
from reaper.memory.items import StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.state import State


class Knowledge(Protocol):
    """What retention needs of a kind of knowledge (learning/knowledge.py)."""

    output: str  # the agent's output layer: linear, or softmax

    def retain(self, student: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """The loss per item (N,) for outputs (N, actions) that should equal the previous agent's."""
        ...


class Recall:
    """What was recalled for one task. This one adds nothing to the loss of the new task."""

    alpha: float | None = None  # the weight of the new task against the recalled ones, where a method has one

    def sample(self, count: int) -> tuple[torch.Tensor, ...]:
        """Items to rehearse, if any: `count` states, and whatever `combine` has to know about each."""
        return ()

    def combine(
        self,
        new_task: torch.Tensor,
        weights: list[torch.Tensor],
        outputs: torch.Tensor | None = None,
        *known: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of an update. It must be a pure function of its arguments, since it may be compiled.

        `new_task` is one loss per item, or their mean; `weights` are the student's, in the order of its parameters;
        `outputs` are the student's for the sampled states, and `known` is what was sampled with them.
        """
        return new_task.mean()

    def release(self) -> None:
        """Frees large arrays once training is over."""

    def state(self) -> State:
        """What a checkpoint has to hold: whatever `sample` changes, such as a random number generator."""
        return {}

    def restore(self, state: State) -> None:
        """Restores what `state` returned."""


@dataclass
class Remembered:
    """What a method passes on: tensors for the next long-term memory, and losses for the report."""

    retained: dict[str, torch.Tensor] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)


class Retention(ABC):
    """A way to retain earlier tasks."""

    needs_states = True  # `remember` looks at states of the new task
    uses_generator = False  # depends on the settings of the generator
    trains_generator = False  # `remember` trains the generator: long, on a GPU if there is one, with idle CPU cores
    measures_fisher = False  # `remember` measures a Fisher matrix

    def settings_for(self, knowledge: Knowledge) -> dict[str, Any]:
        """Hyper-parameters that every condition with this method and this kind of knowledge has, unless the condition
        or a user gives others. A default cannot change any more (config/settings.py); this can."""
        return {}

    @abstractmethod
    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        """Opens the long-term memory before a new task; `previous` is its agent, frozen."""

    @abstractmethod
    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        """What to pass on after a task; `memory` is the one before it, None after the first task."""

    @abstractmethod
    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        """The most bytes that are passed on after `num_tasks` tasks, besides the agent's weights."""

    def num_items(self, memory: LongTermMemory) -> int | None:
        """How many real items a memory holds; None where the method stores none."""
        return None

    def compressed_bytes(self, memory: LongTermMemory) -> int | None:
        """The size of a memory if its items were compressed without loss; None where it holds no raw items."""
        return None

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        """What this method would recall, but a memory from elsewhere does not hold; None if it holds everything."""
        return None

    def conflict_with(self, before: Retention) -> str | None:
        """What would be mixed if a memory that this method made with other hyper-parameters were continued; None if
        they go together."""
        return None

    def adopt(self, generator: dict[str, torch.Tensor]) -> Remembered | None:
        """After the first task of a condition with a short-term generator: uses that generator instead of calling
        `remember`. None if the method has no use for a generator."""
        return None
