"""Whether a study fits into this machine's memory and disk, said before the work starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reaper.errors import UserError
from reaper.networks.families import q_network_bytes
from reaper.retention.pseudo_rehearsal import PseudoRehearsal
from reaper.retention.rehearsal import item_bytes
from reaper.tasks.observation import state_spec

if TYPE_CHECKING:
    from reaper.engines.local import Resources
    from reaper.study.chains import Chain

GB = 10**9


def agent_bytes(chain: Chain) -> int:
    settings = chain.settings
    return q_network_bytes(state_spec(settings.observation), chain.sequence.num_actions, settings.network)


def memory_bytes(chain: Chain, tasks: int) -> int:
    """The bytes of the long-term memory after so many tasks: the paper's memory column."""
    return agent_bytes(chain) + chain.condition.retention.kept_bytes(chain.settings, chain.sequence.num_actions, tasks)


def working_bytes(chain: Chain) -> int:
    """The most that one stage holds at once: replay, recalled items and the long-term memory."""
    settings, tasks = chain.settings, len(chain.sequence.tasks)
    replay = (
        2 * settings.training.replay_capacity * (state_spec(settings.observation).frame.num_bytes + 24)
    )  # itself and its copy for a checkpoint
    items = settings.generator.pseudo_items * (item_bytes(settings) + 4 * chain.sequence.num_actions)
    return replay + 2 * items + 2 * memory_bytes(chain, tasks)


def checkpoint_bytes(chain: Chain) -> int:
    """About what one checkpoint takes: the replay, and weights and optimisers of the agent and of a GAN. What was
    recalled is not in it: it is made again."""
    settings = chain.settings
    networks = agent_bytes(chain) + PseudoRehearsal().kept_bytes(settings, chain.sequence.num_actions, 1)
    return settings.training.replay_capacity * (state_spec(settings.observation).frame.num_bytes + 24) + 4 * networks


def free_memory(device: str) -> int | None:
    """Bytes free on the device, or None where that cannot be told."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _still_learns(chain: Chain, out: Path) -> bool:
    """Whether anything but whole games is left to do."""
    return any(not (out / "stages" / stage.digest).is_dir() for stage in chain.stages if stage.kind != "evaluate")


def check_room(chains: Iterable[Chain], out: Path, resources: Resources, free: Any = None) -> None:
    """Refuses a study that would run out of memory or disk."""
    chains = [chain for chain in chains if _still_learns(chain, out)]
    if not chains:
        return
    needed = max(working_bytes(chain) for chain in chains) * min(resources.workers, len(chains) * 2)
    if free is None and resources.cluster is None:  # else the memory is that of other machines
        free = free_memory(resources.device)
    if free is not None and needed > free:
        raise UserError(
            f"this study needs about {needed / GB:.1f} GB of memory and {free / GB:.1f} GB are free; use fewer "
            "--workers, a smaller --training.replay-capacity, --generator.pseudo-items or --rehearsal.items"
        )
    disk = sum(memory_bytes(chain, task + 1) for chain in chains for task in range(len(chain.sequence.tasks)))
    disk += 3 * resources.workers * max(checkpoint_bytes(chain) for chain in chains)  # two kept, one being written
    room = shutil.disk_usage(_existing(out)).free
    if disk > room:
        raise UserError(
            f"this study writes about {disk / GB:.1f} GB and {room / GB:.1f} GB are free where {out} lies; choose "
            "another --out or fewer conditions or seeds"
        )
