"""Rehearsal: real items of earlier tasks are stored, and rehearsed alongside the new task.

The store has a fixed size, shared equally by the tasks so far. The targets of stored items are the previous agent's
outputs, as for pseudo-items, and not the outputs they were first learnt with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from reaper.config.fields import positive
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.equations import repr_loss
from reaper.memory.items import Items, StateSource, compress, decompress
from reaper.memory.long_term import LongTermMemory, tensor_bytes
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Knowledge, Recall, Remembered, Retention
from reaper.state import State
from reaper.tasks.observation import state_spec

END_BYTES = 4  # of the end offset of a compressed item
COMPRESSED_SAMPLE = 500  # items of each task that are compressed to measure what all of them would take


class RecalledItems(Recall):
    """Items with the previous agent's outputs; a batch of them joins every batch of the new task."""

    def __init__(self, context: Context, items: Items, knowledge: Knowledge, tasks_before: int) -> None:
        self.items, self.knowledge = items, knowledge
        self.alpha: float = context.settings.long_term.alpha_for(tasks_before + 1)
        self.rng = context.rng("retained batches")

    def sample(self, count: int) -> tuple[torch.Tensor, ...]:
        return self.items.sample(count, self.rng)

    def combine(self, new_task, weights, outputs=None, *known) -> torch.Tensor:  # noqa: ANN001
        assert outputs is not None
        (previous_outputs,) = known
        return repr_loss(new_task, self.knowledge.retain(outputs, previous_outputs), self.alpha)

    def release(self) -> None:
        self.items = Items(torch.empty(0))

    def state(self) -> State:
        return self.rng.state()

    def restore(self, state: State) -> None:
        self.rng.restore(state)


def item_bytes(settings: Settings) -> int:
    """The bytes of one raw state."""
    return state_spec(settings.observation).num_bytes


@dataclass(frozen=True)
class Rehearsal(Retention):
    """Keeps raw items."""

    capacity: int = positive(250_000, "items kept of all tasks together")

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        items = Items.on(context.device, torch.cat(self.stored(context, memory))).with_targets(previous)
        return RecalledItems(context, items, knowledge, len(memory.tasks))

    def stored(self, context: Context, memory: LongTermMemory) -> list[torch.Tensor]:
        """The items of each earlier task."""
        return [memory.retained[f"items.{task}"] for task in range(len(memory.tasks))]

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        # The strings here and below are keys of random streams: renaming one would change results.
        rng = context.rng("rehearsal store")
        earlier = self.stored(context, memory) if memory else []
        share = self.capacity // (len(earlier) + 1)
        cpu_rng = torch.Generator().manual_seed(context.derive_seed("thinning"))
        items = [Items(states).distinct_states(share, cpu_rng) for states in earlier]
        items.append(new_states.distinct_states(share, rng).cpu())
        return Remembered({f"items.{task}": states for task, states in enumerate(items)})

    def compressed_bytes(self, memory: LongTermMemory) -> int | None:
        agent = sum(tensor_bytes(tensor) for tensor in memory.agent.values())
        return agent + sum(_compressed_size(memory.retained[f"items.{task}"]) for task in range(len(memory.tasks)))

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        shape = context.observation.shape
        stored = [memory.retained.get(f"items.{task}") for task in range(len(memory.tasks))]
        complete = all(s is not None and s.dtype == torch.uint8 and len(s) and s.shape[1:] == shape for s in stored)
        return None if complete else "stored items of every task"

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        return self.capacity * item_bytes(settings)


@dataclass(frozen=True)
class LimitedRehearsal(Rehearsal):
    """Keeps only as many raw items as fit in the bytes of the generator."""

    capacity: int = positive(600, "items kept of all tasks together")


@dataclass(frozen=True)
class CompressedRehearsal(Rehearsal):
    """Keeps as many losslessly compressed items as fit in the bytes of the limited raw store."""

    capacity: int = positive(600, "raw items whose bytes all compressed items share")
    # A compressed item may take only a few dozen bytes; this bounds the work of compressing them.
    max_items: int = positive(250_000, "items of a new task that are compressed at most")

    def stored(self, context: Context, memory: LongTermMemory) -> list[torch.Tensor]:
        return [decompress(packed, context.observation.shape) for packed in self._packed(memory)]

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        names = [f"{part}.{task}" for task in range(len(memory.tasks)) for part in ("packed", "ends")]
        return None if all(name in memory.retained for name in names) else "compressed items of every task"

    def compressed_bytes(self, memory: LongTermMemory) -> int | None:
        return None  # they are compressed already

    def _packed(self, memory: LongTermMemory) -> list[list[bytes]]:
        """The compressed items of each earlier task."""
        tasks = []
        for task in range(len(memory.tasks)):
            data = memory.retained[f"packed.{task}"].numpy().tobytes()
            ends = memory.retained[f"ends.{task}"].tolist()
            tasks.append([data[a:b] for a, b in zip([0, *ends], ends, strict=False)])
        return tasks

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        earlier = self._packed(memory) if memory else []
        share = self.capacity * item_bytes(context.settings) // (len(earlier) + 1)
        order = torch.Generator().manual_seed(context.derive_seed("thinning"))
        new = new_states.distinct_states(self.max_items, context.rng("rehearsal store"))
        retained: dict[str, torch.Tensor] = {}
        for task, packed in enumerate([*earlier, None]):
            if packed is None:
                kept = _fill(share, (compress(state[None])[0] for state in new))
            else:
                kept = _fill(share, (packed[i] for i in torch.randperm(len(packed), generator=order).tolist()))
            sizes = torch.tensor([len(item) for item in kept], dtype=torch.int64)
            retained[f"packed.{task}"] = torch.frombuffer(bytearray(b"".join(kept)), dtype=torch.uint8)
            retained[f"ends.{task}"] = sizes.cumsum(0).to(torch.int32)
        return Remembered(retained)


def _compressed_size(states: torch.Tensor) -> int:
    """The bytes of these items when compressed, from a sample of them: a whole store would take minutes."""
    chosen = torch.linspace(0, len(states) - 1, min(len(states), COMPRESSED_SAMPLE)).long()
    sizes = [len(item) + END_BYTES for item in compress(states[chosen])]
    return round(len(states) * sum(sizes) / max(1, len(sizes)))


def _fill(room: int, packed: Iterable[bytes]) -> list[bytes]:
    """Takes items while they and their end offsets fit into `room` bytes."""
    kept: list[bytes] = []
    for item in packed:
        room -= len(item) + END_BYTES
        if room < 0:
            break
        kept.append(item)
    return kept
