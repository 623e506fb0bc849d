"""Pseudo-rehearsal: a generator is all that is kept of earlier tasks, and its states are rehearsed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reaper.config.fields import probability
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.generators import generator_for, pseudo_items
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Knowledge, Recall, Remembered, Retention
from reaper.retention.cutmix import check_cutmix, cutmix_
from reaper.retention.rehearsal import RecalledItems
from reaper.tasks.observation import state_spec


def generate_items(context: Context, memory: LongTermMemory) -> Items:
    """The temporary array of pseudo-items from which a stage samples."""
    generator = generator_for(context.settings).load(context, memory.part("generator"))
    # "dreams" is the key of a random stream: renaming it would change every result.
    return Items(pseudo_items(context, generator, context.rng("dreams")))


def _keep(generator: dict[str, torch.Tensor], curve: list[dict[str, float]]) -> Remembered:
    return Remembered({f"generator.{name}": tensor for name, tensor in generator.items()}, curve)


@dataclass(frozen=True)
class PseudoRehearsal(Retention):
    """Keeps a generator of the states of all tasks so far."""

    cutmix: float = probability(
        0.0, "share of rehearsed items in which a rectangle is that of another one", from_second_task=True
    )

    uses_generator = True
    trains_generator = True

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        items = self.items(context, memory)
        if self.cutmix:
            cutmix_(items.states, self.cutmix, context.rng("cutmix"))
        return RecalledItems(context, items.with_targets(previous), knowledge, len(memory.tasks))

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        items = self.items(context, memory) if memory else None
        num_tasks = len(memory.tasks) + 1 if memory else 1
        generator = generator_for(context.settings)
        training = generator.training(context, new_states, items, num_tasks)
        if memory and generator.warm_start:
            training.start_from(memory.part("generator"))
        return _keep(training.run().state(), training.curve)

    def items(self, context: Context, memory: LongTermMemory) -> Items:
        """States of the earlier tasks: what is rehearsed, and what the next generator learns them from."""
        return generate_items(context, memory)

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        if not memory.part("generator"):
            return "a generator"
        generator_for(context.settings).load(context, memory.part("generator"))  # refuses that of another network
        return None

    def adopt(self, generator: dict[str, torch.Tensor]) -> Remembered:
        return _keep(generator, [])

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        check_cutmix(self.cutmix, state_spec(settings.observation))  # before anything is trained
        return generator_for(settings).num_bytes(state_spec(settings.observation))


@dataclass(frozen=True)
class UntrainedGenerator(PseudoRehearsal):
    """A control: pseudo-rehearsal with a generator that was never trained. If this retained as well, the generator
    would not be what makes the difference."""

    trains_generator = False

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        return _keep(generator_for(context.settings).untrained(context).state(), [])
