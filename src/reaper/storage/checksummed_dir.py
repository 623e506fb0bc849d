"""Folders of results: tensors and JSON documents that appear together and are verified against a manifest when read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save_file

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.files import (
    atomic_dir,
    canonical,
    checksummed,
    read_checksummed,
    read_json,
    read_tensors,
    sha256,
)
from reaper.storage.manifests import FileEntry, FileList, Files, Provenance

MANIFEST = "manifest.json"
PROVENANCE = "provenance.json"  # carries its own checksum: the manifest, equal for equal runs, does not list it
OWN_FILES = (MANIFEST, PROVENANCE)


def write_checksummed_dir(
    folder: Path,
    *,
    about: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    documents: Mapping[str, Any],
    provenance: Provenance,
) -> None:
    """Writes results and the manifest that they are verified against; `about` is what else the manifest holds."""
    with atomic_dir(folder) as building:
        for name, group in tensors.items():
            save_file({k: t.contiguous() for k, t in group.items()}, building / f"{name}.safetensors")
        for name, document in documents.items():
            (building / f"{name}.json").write_text(canonical(document))
        entries = {p.name: FileEntry(p.stat().st_size, sha256(p)) for p in sorted(building.iterdir())}
        write_manifest(building, about, entries, provenance)


def write_manifest(folder: Path, about: Mapping[str, Any], files: Files, provenance: Provenance) -> None:
    """The two files that make a folder of results complete."""
    listed = {name: asdict(entry) for name, entry in files.items()}
    (folder / PROVENANCE).write_bytes(checksummed(provenance.to_json()))
    (folder / MANIFEST).write_bytes(checksummed({**about, "files": listed}))


class ChecksummedDir:
    """Such a folder, opened for reading: nothing in it is used before it is verified."""

    checksum_key: ClassVar[str] = "checksum"
    provenance_file: ClassVar[str] = PROVENANCE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents = read_checksummed(folder / MANIFEST, self.checksum_key)  # of the manifest
        listed = FileList.from_json(self.contents, folder / MANIFEST)
        self.files, self.left_out = listed.files, listed.left_out

    @property
    def listed(self) -> Files:
        """All files ever written here, including those that were left out of a pack."""
        return {**self.left_out, **self.files}

    def verified(self, name: str) -> Path:
        """The path of a file that matches its checksum."""
        path, entry = self.folder / name, self.files.get(name)
        if name in self.left_out:
            raise UserError(f"{path} was left out when its run was packed; import it in full, or run its command again")
        try:
            intact = entry and path.stat().st_size == entry.bytes and sha256(path) == entry.sha256
        except OSError:
            intact = False
        if not intact:
            raise DamagedArtefact(path, "does not match its checksum" if path.exists() else "is missing")
        return path

    def has(self, name: str) -> bool:
        return name in self.files

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return read_tensors(self.verified(f"{name}.safetensors"))

    def document(self, name: str) -> Any:
        return read_json(self.verified(f"{name}.json"))

    def provenance(self) -> Provenance:
        path = self.folder / self.provenance_file
        return Provenance.from_json(read_checksummed(path, self.checksum_key), path)

    def check(self) -> None:
        """Raises DamagedArtefact unless every file matches its checksum."""
        self.provenance()
        for name in self.files:
            self.verified(name)

    def check_nothing_else(self) -> None:
        """Raises DamagedArtefact where the folder has files that the manifest does not list."""
        extra = {path.name for path in self.folder.iterdir()} - {MANIFEST, self.provenance_file, *self.files}
        if extra:
            raise DamagedArtefact(self.folder, f"holds files that its manifest does not list ({sorted(extra)[0]})")
