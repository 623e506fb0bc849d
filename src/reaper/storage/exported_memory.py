"""Long-term memories on disk: inside a finished stage, or exported to a folder of their own.

An exported memory is not a finished stage, and a store never takes it for one: its weights may have been rounded to
half precision.
"""

from __future__ import annotations

from pathlib import Path

import torch

from reaper.errors import DamagedArtefact, UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage.checksummed_dir import MANIFEST, ChecksummedDir, write_checksummed_dir
from reaper.storage.manifests import EXPORTED_MEMORY, MEMORY_FORMAT, MemoryManifest
from reaper.storage.records import RunRecord
from reaper.storage.store import Artefact

INITIAL_MEMORY = "inherited memory"  # kind of the stage that an exported memory becomes where a run continues from it


def read_memory(folder: ChecksummedDir) -> LongTermMemory:
    """The memory in a stage's folder or in an exported one."""
    document = folder.document("memory")
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, str) for task in tasks):
        raise DamagedArtefact(folder.folder / "memory.json", "names no tasks")
    retained = folder.tensors("retained") if folder.has("retained.safetensors") else {}
    return LongTermMemory(folder.tensors("agent"), tuple(tasks), retained)


class ExportedMemory(ChecksummedDir):
    """An exported memory, opened for reading."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if self.contents.get("kind") != EXPORTED_MEMORY:
            raise UserError(f"{folder} holds no long-term memory that was exported")
        if self.contents.get("format") != MEMORY_FORMAT:
            raise UserError(
                f"{folder} was exported by another version of reaper (format {str(self.contents.get('format'))[:20]}); "
                "import its pack again"
            )
        self.manifest = MemoryManifest.from_json(self.contents, folder / MANIFEST)

    def read(self) -> LongTermMemory:
        """In full precision, whatever precision it was exported in."""
        memory = read_memory(self)
        return LongTermMemory(_to_float32(memory.agent), memory.tasks, _to_float32(memory.retained))


def _to_float32(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.float() if t.dtype == torch.float16 else t for name, t in tensors.items()}


def write_exported(folder: Path, artefact: Artefact, record: RunRecord, half: bool = False) -> None:
    """Writes the memory of a finished stage to a folder of its own, with all that another run needs to continue."""
    memory = read_memory(artefact)
    if half:
        memory = to_half(memory)
    manifest = MemoryManifest(
        spec=artefact.spec,
        title=artefact.title,
        precision="half" if half else "full",
        stage=artefact.manifest.digest,
        condition=record.condition,
        sequence=record.sequence,
        titles=record.titles[: len(memory.tasks)],
    )
    tensors = {"agent": memory.agent, "retained": memory.retained}
    write_checksummed_dir(
        folder,
        about=manifest.to_json(),
        tensors={name: group for name, group in tensors.items() if group},
        documents={"memory": {"tasks": list(memory.tasks), "bytes": memory.bytes}},
        provenance=artefact.provenance(),
    )


def to_half(memory: LongTermMemory) -> LongTermMemory:
    """Agent and generator in half precision. Stored items stay as they are, and so do Fisher diagonals, whose values
    exceed the range of half precision."""
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
