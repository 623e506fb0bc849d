"""A long-term memory that left its run: a folder of its own, to play with and to learn on from.

It is not a finished stage, and a store never takes it for one: its weights may have been rounded to half precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from reaper.errors import DamagedArtefact, UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage.files import Folder, write_folder
from reaper.storage.store import Artefact

KIND = "long-term memory"
INHERITED = "inherited memory"  # the kind of a stage that one becomes in a store where it is taught further tasks
MEMORY_FORMAT = 1


def read_memory(folder: Folder) -> LongTermMemory:
    """The memory in a stage's folder or in a portable one."""
    tasks = folder.document("memory")
    tasks = tasks.get("tasks") if isinstance(tasks, dict) else None
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, str) for task in tasks):
        raise DamagedArtefact(folder.folder / "memory.json", "names no tasks")
    retained = folder.tensors("retained") if folder.has("retained.safetensors") else {}
    return LongTermMemory(folder.tensors("agent"), tuple(tasks), retained)


class PortableMemory(Folder):
    """A memory's folder, opened for reading."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if self.manifest.get("kind") != KIND or not isinstance(self.manifest.get("spec"), dict):
            raise UserError(f"{folder} holds no long-term memory that was exported")
        if self.manifest.get("format") != MEMORY_FORMAT:
            raise UserError(f"{folder} was exported by an incompatible version; export it again with this one")
        self.spec: dict[str, Any] = self.manifest["spec"]

    def read(self) -> LongTermMemory:
        """In full precision, whatever it was kept in."""
        memory = read_memory(self)
        return LongTermMemory(_single(memory.agent), memory.tasks, _single(memory.retained))


def _single(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.float() if t.dtype == torch.float16 else t for name, t in tensors.items()}


def write_portable(folder: Path, artefact: Artefact, record: dict[str, Any], half: bool = False) -> None:
    """Writes the memory of a finished stage as a folder of its own, with all that a new chain would start from."""
    memory = read_memory(artefact)
    if half:
        memory = halved(memory)
    spec = artefact.manifest["spec"]
    about = {
        "format": MEMORY_FORMAT,
        "kind": KIND,
        "title": artefact.manifest.get("title", KIND),
        "precision": "half" if half else "full",
        "stage": artefact.manifest["digest"],
        "spec": spec,
        "condition": record["condition"],
        "sequence": record["sequence"],
        "titles": record["titles"][: len(memory.tasks)],
    }
    tensors = {"agent": memory.agent, "retained": memory.retained}
    documents = {"memory": {"tasks": list(memory.tasks), "bytes": memory.bytes}}
    kept = {name: group for name, group in tensors.items() if group}
    write_folder(folder, about, kept, documents, artefact.made())


def halved(memory: LongTermMemory) -> LongTermMemory:
    """Agent and generator in half precision. Stored items stay as they are, and so do Fisher matrices, whose values
    span more than half precision can."""
    retained = {
        name: _half(name, tensor) if name.startswith("generator.") else tensor
        for name, tensor in memory.retained.items()
    }
    return LongTermMemory({name: _half(name, t) for name, t in memory.agent.items()}, memory.tasks, retained)


def _half(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    half = tensor.half()
    if not bool(half.isfinite().all()):
        raise UserError(f"{name} has values too large for half precision; export without --half")
    return half
