"""Pseudo-rehearsal: earlier tasks are dreamt up by a generator, which is all that is kept of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from reaper.config.settings import Settings
from reaper.context import Context, state_tensors
from reaper.generators.gan.generator import Generator
from reaper.generators.gan.training import train_generator
from reaper.learning.knowledge import Knowledge
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory, tensor_bytes
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Recall, Remembered, Retention
from reaper.retention.rehearsal import RecalledItems


@dataclass(frozen=True)
class PseudoRehearsal(Retention):
    """Keeps a generator of the states of all tasks so far."""

    trains_generator = True

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        return RecalledItems(context, dream(context, memory).with_targets(previous), knowledge, len(memory.tasks))

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        pseudo_items = dream(context, memory) if memory else None
        generator, curve = train_generator(context, new_states, pseudo_items, len(memory.tasks) + 1 if memory else 1)
        return self._keep(state_tensors(generator), curve)

    def lacks(self, context: Context, memory: LongTermMemory) -> str | None:
        if not memory.part("generator"):
            return "a generator"
        context.generator(memory.part("generator"))  # refuses that of another network
        return None

    def adopt(self, generator: dict[str, torch.Tensor]) -> Remembered:
        return self._keep(generator, [])

    def _keep(self, generator: dict[str, torch.Tensor], curve: list[dict[str, float]]) -> Remembered:
        return Remembered({f"generator.{name}": tensor for name, tensor in generator.items()}, curve)

    def kept_bytes(self, settings: Settings, actions: int, tasks: int) -> int:
        frames = settings.observation
        generator = Generator(
            frames.frame_size, frames.frame_stack, settings.generator.latent_size, settings.generator.width
        )
        return sum(tensor_bytes(t) for t in state_tensors(generator).values())


def dream(context: Context, memory: LongTermMemory) -> Items:
    """The temporary array of pseudo-items that a stage draws from."""
    generator = context.generator(memory.part("generator"))
    return Items(generator.dream(context.settings.generator.pseudo_items, context.rng("dreams")))


@dataclass(frozen=True)
class UntrainedDreams(PseudoRehearsal):
    """A control: pseudo-rehearsal with a generator that was never trained. If this retained as well, the generator
    would not be what does the work."""

    trains_generator = False

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        settings = context.settings
        untrained = replace(context, settings=replace(settings, generator=replace(settings.generator, steps=0)))
        generator, _ = train_generator(untrained, new_states, None, 1)
        return self._keep(state_tensors(generator), [])
