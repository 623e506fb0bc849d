"""Mixed rehearsal: a narrower generator of all earlier tasks, and compressed real items in the bytes that this frees.

Real items keep small details that a generator loses; the generator covers the states between them. It is trained on
both, too, so that what it forgets of an early task is restored from real items. Unlike RePR, this keeps data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reaper.config.fields import positive, probability
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Remembered
from reaper.retention.pseudo_rehearsal import PseudoRehearsal, generate_items
from reaper.retention.rehearsal import CompressedRehearsal


@dataclass(frozen=True)
class MixedRehearsal(PseudoRehearsal):
    """Keeps a generator and a compressed store."""

    capacity: int = positive(373, "raw items whose bytes all compressed items share")
    real_share: float = probability(0.5, "share of real items among those rehearsed")
    max_items: int = positive(50_000, "items of a new task that are compressed at most")

    @property
    def store(self) -> CompressedRehearsal:
        return CompressedRehearsal(self.capacity, self.max_items, codec="lzma")

    def items(self, context: Context, memory: LongTermMemory) -> Items:
        generated = generate_items(context, memory).states
        real = torch.cat(self.store.stored(context, memory))
        rng = torch.Generator().manual_seed(context.derive_seed("mixed items"))
        chosen = torch.randint(len(real), (round(self.real_share * len(generated)),), generator=rng)
        states = Items.on(context.device, real[chosen]).states
        return Items(torch.cat([generated[len(states) :], states]))

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        generator = super().remember(context, memory, agent, new_states)
        stored = self.store.remember(context, memory, agent, new_states)
        return Remembered({**generator.retained, **stored.retained}, generator.curve)

    def num_items(self, memory: LongTermMemory) -> int:
        return self.store.num_items(memory)

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        return super().missing_from(context, memory) or self.store.missing_from(context, memory)

    def adopt(self, generator: dict[str, torch.Tensor]) -> None:
        """A generator alone is not enough: `remember` is called."""

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        generator = super().num_bytes(settings, num_actions, num_tasks)
        return generator + self.store.num_bytes(settings, num_actions, num_tasks)
