"""Estimates of the memory and disk space that a study needs, checked before it starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.networks.families import q_network_bytes
from reaper.retention.rehearsal import item_bytes
from reaper.tasks.observation import state_spec

if TYPE_CHECKING:
    from reaper.study.chains import Chain

GB = 10**9


def agent_bytes(chain: Chain) -> int:
    settings = chain.settings
    return q_network_bytes(state_spec(settings.observation), chain.sequence.num_actions, settings.network)


def memory_bytes(chain: Chain, tasks: int) -> int:
    """The size of the long-term memory after that many tasks: the paper's memory column."""
    retention = chain.condition.make_retention(chain.settings)
    return agent_bytes(chain) + retention.num_bytes(chain.settings, chain.sequence.num_actions, tasks)


def working_bytes(chain: Chain) -> int:
    """The most that one stage holds at once: replay buffer, pseudo-items and the long-term memory."""
    settings, tasks = chain.settings, len(chain.sequence.tasks)
    # The replay buffer exists twice while a checkpoint is written.
    size = 2 * _replay_bytes(chain) + 2 * memory_bytes(chain, tasks)
    if chain.condition.uses_generator:
        size += 2 * settings.generator.pseudo_items * (item_bytes(settings) + 4 * chain.sequence.num_actions)
    return size


def _replay_bytes(chain: Chain) -> int:
    """A frame, and 24 bytes for action, reward and flags, per transition."""
    frame = state_spec(chain.settings.observation).frame
    return chain.settings.training.replay_capacity * (frame.num_bytes + 24)


def checkpoint_bytes(chain: Chain) -> int:
    """The approximate size of one checkpoint: the replay buffer, and weights and optimiser states of the agent and of a
    generator. Rehearsed items are not in it; they are generated again."""
    settings = chain.settings
    networks = agent_bytes(chain) + generator_for(settings).num_bytes(state_spec(settings.observation))
    return _replay_bytes(chain) + 4 * networks


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _still_learns(chain: Chain, out: Path) -> bool:
    """Whether anything but evaluation is left to do."""
    return any(not (out / "stages" / stage.digest).is_dir() for stage in chain.stages if stage.kind != "evaluate")


def check_space(chains: Iterable[Chain], out: Path, *, workers: int, free_memory: int | None) -> None:
    """Refuses a study that would run out of disk, or of `free_memory` bytes (None: not known)."""
    chains = [chain for chain in chains if _still_learns(chain, out)]
    if not chains:
        return
    memory = max(working_bytes(chain) for chain in chains) * min(workers, len(chains) * 2)
    if free_memory is not None and memory > free_memory:
        raise UserError(
            f"this study needs about {memory / GB:.1f} GB of memory and {free_memory / GB:.1f} GB are free; use fewer "
            "--workers, a smaller --training.replay-capacity, --generator.pseudo-items or --rehearsal.capacity"
        )
    disk = sum(memory_bytes(chain, task + 1) for chain in chains for task in range(len(chain.sequence.tasks)))
    disk += 3 * workers * max(checkpoint_bytes(chain) for chain in chains)  # two are kept while a third is written
    free_disk = shutil.disk_usage(_existing(out)).free
    if disk > free_disk:
        raise UserError(
            f"this study writes about {disk / GB:.1f} GB and {free_disk / GB:.1f} GB are free on the disk of {out}; "
            "choose another --out, or fewer conditions or seeds"
        )
