"""Finding one long-term memory: in the folder of a run, a stage, an export or a model hub, or in a pack."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage.checksummed_dir import MANIFEST, ChecksummedDir
from reaper.storage.convert import unpacked
from reaper.storage.exported_memory import INITIAL_MEMORY, ExportedMemory, read_memory
from reaper.storage.files import read_json
from reaper.storage.format2 import names
from reaper.storage.manifests import EXPORTED_MEMORY
from reaper.storage.model_folder import is_model_folder, read_model
from reaper.storage.pack_file import Pack
from reaper.storage.records import RunRecord
from reaper.storage.store import Artefact, Store, older_version

MEMORY_KINDS = ("consolidate", INITIAL_MEMORY)  # of stages that end with a long-term memory
MAX_SEQUENCE_NAME = 60


@dataclass(frozen=True)
class FoundMemory:
    """A long-term memory, the spec of the stage that computed it, and the name of the sequence it comes from."""

    memory: LongTermMemory
    spec: Mapping[str, Any]
    sequence: str


@dataclass(frozen=True)
class RunChoice:
    """Which run of an output folder is meant; None leaves a question open."""

    condition: str | None = None
    seed: int | None = None
    sequence: str | None = None

    def matches(self, run: RunRecord) -> bool:
        wanted = ((self.condition, run.condition_name), (self.seed, run.seed), (self.sequence, run.sequence))
        return all(mine in (None, theirs) for mine, theirs in wanted)

    def __str__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return ", ".join(f"{name} {value}" for name, value in given.items()) or "a long-term memory"


def find_memory(path: Path, choice: RunChoice | None = None, after_task: int | None = None) -> FoundMemory:
    """The memory at a path; `choice` and `after_task` (counted from one) select among those of an output folder."""
    if path.is_file():
        return _find_in_pack(path)
    if (path / MANIFEST).is_file():
        _check_version(path)
        exported = ChecksummedDir(path).contents.get("kind") == EXPORTED_MEMORY
        return found_in(ExportedMemory(path)) if exported else _find_in_stage(Artefact(path))
    if is_model_folder(path):
        memory, config = read_model(path)
        return FoundMemory(memory, config, ",".join(memory.tasks)[:MAX_SEQUENCE_NAME])
    store = Store.open(path)
    record, digest = choose_memory(store, choice or RunChoice(), after_task)
    return _find_in_stage(store.stage(digest), record.sequence)


def choose_memory(store: Store, choice: RunChoice, after_task: int | None = None) -> tuple[RunRecord, str]:
    """The record of the one run that is meant, and the digest of its memory after so many tasks."""
    found = [run for run in store.runs() if run.memories]
    runs = [run for run in found if choice.matches(run)]
    if not runs and choice.condition:  # teachers without values have made it a condition that transfers policies
        converted = replace(choice, condition=f"{choice.condition}-policy")
        runs = [run for run in found if converted.matches(run)]
    names = ", ".join(store.run_names()) or "none"
    if not runs:
        raise UserError(f"{store.folder} holds no run with {choice}; it has {names}")
    different = {(run.condition_name, run.sequence) for run in runs}
    if len(runs) > 1 and not (choice.condition and len(different) == 1):
        raise UserError(f"{store.folder} holds several runs; choose one by condition, seed or sequence: {names}")
    memories = runs[0].memories
    number = len(memories) if after_task is None else after_task
    if not 1 <= number <= len(memories):
        raise UserError(f"the number of tasks must be 1 to {len(memories)}, not {after_task}")
    return runs[0], memories[number - 1]


def found_in(exported: ExportedMemory) -> FoundMemory:
    """The memory in an exported folder."""
    sequence = "".join(filter(str.isprintable, exported.manifest.sequence))[:MAX_SEQUENCE_NAME]  # for a file's name
    return FoundMemory(exported.read(), exported.manifest.spec, sequence)


def _find_in_pack(path: Path) -> FoundMemory:
    with Pack(path) as pack, tempfile.TemporaryDirectory() as near:
        if pack.kind != "weights":
            raise UserError(f"{path} holds a whole run: `reaper import {path} OUT` first")
        folder = Path(near) / "memory"
        with unpacked(pack, folder) as unpacked_folder:
            return found_in(ExportedMemory(unpacked_folder))


def _check_version(folder: Path) -> None:
    """Raises UserError for a folder of an earlier version, with what to do."""
    manifest = read_json(folder / MANIFEST)
    if isinstance(manifest, dict) and names.CHECKSUM in manifest:
        exported = manifest.get("kind") == EXPORTED_MEMORY
        whole = folder if exported else folder.absolute().parent.parent  # OUT of OUT/stages/DIGEST
        raise UserError(older_version(whole, names.FORMAT))


def _find_in_stage(artefact: Artefact, sequence: str | None = None) -> FoundMemory:
    if artefact.manifest.kind not in MEMORY_KINDS:
        raise UserError(f"{artefact.folder} holds no long-term memory but the result of {artefact.title!r}")
    memory = read_memory(artefact)
    return FoundMemory(memory, artefact.spec, sequence or ",".join(memory.tasks))
