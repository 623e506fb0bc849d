"""Mixed rehearsal: a narrower generator of all earlier tasks, and compressed real items in the bytes that this frees.

Real items keep small details that a generator loses; the generator covers the states between them. It is trained on
both, too, so that what it forgets of an early task is restored from real items. Unlike RePR, this keeps data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from reaper.config.fields import positive, probability
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.generators.gan import GAN
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Remembered
from reaper.retention.pseudo_rehearsal import PseudoRehearsal, generate_items
from reaper.retention.rehearsal import MAX_BLOCK, CompressedRehearsal
from reaper.tasks.observation import state_spec


@dataclass(frozen=True)
class MixedRehearsal(PseudoRehearsal):
    """Keeps a generator and a compressed store."""

    real_share: float = probability(0.5, "share of real items among those rehearsed")
    max_items: int = positive(50_000, "items of a new task that are compressed at most")
    block: int = positive(
        1, "items of a new task that are compressed together, and dropped together later", maximum=MAX_BLOCK
    )

    def store(self, settings: Settings) -> CompressedRehearsal:
        """It has the bytes by which the generator is smaller than one of full width."""
        generator, observation = generator_for(settings), state_spec(settings.observation)
        if not isinstance(generator, GAN) or generator.narrow == 1:
            raise UserError("mixed rehearsal stores items in the bytes that --gan.narrow frees: give 2 or more")
        freed = replace(generator, narrow=1).num_bytes(observation) - generator.num_bytes(observation)
        return CompressedRehearsal(freed // observation.num_bytes, self.max_items, codec="lzma", block=self.block)

    def items(self, context: Context, memory: LongTermMemory) -> Items:
        generated = generate_items(context, memory).states
        real = torch.cat(self.store(context.settings).stored(context, memory))
        rng = torch.Generator().manual_seed(context.derive_seed("mixed items"))
        chosen = torch.randint(len(real), (round(self.real_share * len(generated)),), generator=rng)
        states = Items.on(context.device, real[chosen]).states
        return Items(torch.cat([generated[len(states) :], states]))

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        generator = super().remember(context, memory, agent, new_states)
        stored = self.store(context.settings).remember(context, memory, agent, new_states)
        return Remembered({**generator.retained, **stored.retained}, generator.curve)

    def num_items(self, memory: LongTermMemory) -> int:
        return CompressedRehearsal().num_items(memory)

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        return super().missing_from(context, memory) or self.store(context.settings).missing_from(context, memory)

    def adopt(self, generator: dict[str, torch.Tensor]) -> None:
        """A generator alone is not enough: `remember` is called."""

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        generator = super().num_bytes(settings, num_actions, num_tasks)
        return generator + self.store(settings).num_bytes(settings, num_actions, num_tasks)
