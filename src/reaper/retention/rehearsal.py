"""Rehearsal: real items of earlier tasks are stored, and rehearsed alongside the new task.

The store has a fixed size, shared equally by the tasks so far. The targets of stored items are the previous agent's
outputs, as for pseudo-items, and not the outputs they were first learnt with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reaper.config.fields import positive, setting
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.equations import repr_loss
from reaper.errors import UserError
from reaper.memory.compression import Codec, LzmaCodec, ZlibCodec, decompress, sorted_block, to_bytes
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import LongTermMemory, tensor_bytes
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Knowledge, Recall, Remembered, Retention
from reaper.state import State
from reaper.tasks.observation import state_spec

END_BYTES = 4  # of the end offset of a compressed item
BLOCKS_AT_LEAST = 20  # that fit into the room of a new task: with twenty times as many tasks, one still does
MAX_BLOCK = 4096  # items compressed together
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

    def num_items(self, memory: LongTermMemory) -> int | None:
        return sum(len(memory.retained[f"items.{task}"]) for task in range(len(memory.tasks)))

    def compressed_bytes(self, memory: LongTermMemory) -> int | None:
        agent = sum(tensor_bytes(tensor) for tensor in memory.agent.values())
        return agent + sum(_compressed_size(memory.retained[f"items.{task}"]) for task in range(len(memory.tasks)))

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        shape, dtype = context.observation.shape, context.observation.torch_dtype
        stored = [memory.retained.get(f"items.{task}") for task in range(len(memory.tasks))]
        complete = all(s is not None and s.dtype == dtype and len(s) and s.shape[1:] == shape for s in stored)
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
    codec: str = setting("zlib", "of a new task's items; lzma in every condition", choices=("zlib", "lzma"))
    block: int = positive(
        1, "items of a new task that are compressed together, and dropped together later; with lzma", maximum=MAX_BLOCK
    )

    def settings_for(self, knowledge: Knowledge) -> dict[str, Any]:
        return {"codec": "lzma"}  # the default is what runs of 0.2 used

    def stored(self, context: Context, memory: LongTermMemory) -> list[torch.Tensor]:
        shape, dtype = context.observation.shape, context.observation.torch_dtype
        tasks = range(len(memory.tasks))
        return [
            decompress(_packed(memory, task), _codec(memory, task), shape, dtype, _block(memory, task))
            for task in tasks
        ]

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        names = [f"{part}.{task}" for task in range(len(memory.tasks)) for part in ("packed", "ends")]
        return None if all(name in memory.retained for name in names) else "compressed items of every task"

    def num_items(self, memory: LongTermMemory) -> int:
        tasks = range(len(memory.tasks))
        return sum(_block(memory, task) * len(memory.retained[f"ends.{task}"]) for task in tasks)

    def compressed_bytes(self, memory: LongTermMemory) -> int | None:
        return None  # they are compressed already

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        earlier = len(memory.tasks) if memory else 0
        share = self.capacity * item_bytes(context.settings) // (earlier + 1)
        retained: dict[str, torch.Tensor] = {}
        order = torch.Generator().manual_seed(context.derive_seed("thinning"))
        for task in range(earlier):
            assert memory
            packed = _packed(memory, task)
            items = (packed[i] for i in torch.randperm(len(packed), generator=order).tolist())
            retained |= _filled(task, share, items, _codec(memory, task), _block(memory, task))
        new = to_bytes(new_states.distinct_states(self.max_items, context.rng("rehearsal store"))).cpu()
        codec = LzmaCodec.fit(new, max_bytes=share // 10) if self.codec == "lzma" else ZlibCodec()
        block = self._block_size(codec, new.numpy(), share)
        if block == 1:
            items = (codec.compress(state.numpy()) for state in new)
        else:
            blocks = (new[i : i + block].numpy() for i in range(0, len(new) - block + 1, block))
            items = (codec.compress(sorted_block(states)) for states in blocks)
        return Remembered(retained | _filled(earlier, share, items, codec, block))

    def _block_size(self, codec: Codec, states: np.ndarray, room: int) -> int:
        """At most `block`, and so small that later tasks leave room for a block of this one."""
        block = min(self.block, len(states)) if isinstance(codec, LzmaCodec) else 1
        while block > 1 and len(codec.compress(sorted_block(states[:block]))) > room // BLOCKS_AT_LEAST:
            block //= 2
        return max(block, 1)


def _codec(memory: LongTermMemory, task: int) -> Codec:
    """The codec of a task's items: only LZMA has a background."""
    background = memory.retained.get(f"background.{task}")
    return ZlibCodec() if background is None else LzmaCodec(background.numpy())


def _block(memory: LongTermMemory, task: int) -> int:
    """How many items of a task are compressed together."""
    stored = memory.retained.get(f"block.{task}")
    block = 1 if stored is None else int(stored)
    if not 1 <= block <= MAX_BLOCK:  # of a forged file, it must not allocate more than a file can hold
        raise UserError(f"the compressed items of this long-term memory are damaged: blocks of {block} items")
    return block


def _packed(memory: LongTermMemory, task: int) -> list[bytes]:
    """The compressed items of a task, or blocks of them."""
    data, ends = memory.retained[f"packed.{task}"].numpy().tobytes(), memory.retained[f"ends.{task}"].tolist()
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def _filled(task: int, room: int, items: Iterable[bytes], codec: Codec, block: int = 1) -> dict[str, torch.Tensor]:
    """The store of one task: what its codec needs, and as many items as fit into the rest of its room."""
    needed = {}
    if isinstance(codec, LzmaCodec):
        needed[f"background.{task}"] = torch.from_numpy(codec.background)
    if block > 1:
        needed[f"block.{task}"] = torch.tensor(block, dtype=torch.int32)
    room -= sum(tensor_bytes(tensor) for tensor in needed.values())
    kept = _fill(room, items)
    ends = torch.tensor([len(item) for item in kept], dtype=torch.int64).cumsum(0).to(torch.int32)
    packed = torch.frombuffer(bytearray(b"".join(kept)), dtype=torch.uint8)
    return {f"packed.{task}": packed, f"ends.{task}": ends, **needed}


def _compressed_size(states: torch.Tensor) -> int:
    """The bytes of these items when compressed, from a sample of them: a whole store would take minutes."""
    states = to_bytes(states)
    chosen = states[torch.linspace(0, len(states) - 1, min(len(states), COMPRESSED_SAMPLE)).long()]
    codec = LzmaCodec.fit(chosen, max_bytes=chosen.numel())
    sizes = [len(codec.compress(state.numpy())) + END_BYTES for state in chosen]
    return codec.background.nbytes + round(len(states) * sum(sizes) / max(1, len(sizes)))


def _fill(room: int, packed: Iterable[bytes]) -> list[bytes]:
    """Takes items while they and their end offsets fit into `room` bytes."""
    kept: list[bytes] = []
    for item in packed:
        room -= len(item) + END_BYTES
        if room < 0:
            break
        kept.append(item)
    return kept
