"""Artefacts on disk: written whole or not at all, checked whenever they are read, never able to run code.

OUT/reaper.json               format, version and settings: what every stage in here has in common
OUT/stages/DIGEST/            one finished stage
    manifest.json             what it is and the checksum of each file
    *.safetensors, *.json     its results
    made.json                 how long it took, on what: the only file that differs between two equal runs
OUT/runs/NAME.json            which stages make up a condition's run with one seed
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save

from reaper.errors import DamagedArtefact, UserError

FORMAT = 1


def canonical(value: Any) -> str:
    """JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(spec: Mapping[str, Any]) -> str:
    """A stage's name: a digest of everything its result depends on."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:20]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _write(path: Path, data: bytes) -> None:
    """Whole and on the disk, or not there."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        raise DamagedArtefact(f"{path} cannot be read as JSON; restore it from a copy") from None


class Artefact:
    """One finished stage, opened for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = read_json(folder / "manifest.json")

    def _checked(self, name: str) -> Path:
        path, entry = self.folder / name, self.manifest.get("files", {}).get(name)
        if (
            entry is None
            or not path.is_file()
            or path.stat().st_size != entry["bytes"]
            or _sha256(path) != entry["sha256"]
        ):
            raise DamagedArtefact(
                f"{path} does not match its checksum; delete the folder {self.folder} to have it made again"
            )
        return path

    def has(self, name: str) -> bool:
        return name in self.manifest["files"]

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        path = self._checked(f"{name}.safetensors")
        try:
            return load_file(path)
        except safetensors.SafetensorError as error:
            raise DamagedArtefact(f"{path} is not a safetensors file: {error}") from None

    def document(self, name: str) -> Any:
        return read_json(self._checked(f"{name}.json"))

    def made(self) -> dict[str, Any]:
        path = self.folder / "made.json"
        return read_json(path) if path.exists() else {}

    def check(self) -> None:
        for name in self.manifest["files"]:
            self._checked(name)


class Store:
    """An output folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock: Any = None

    # -- the folder as a whole

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """An existing run, for reading."""
        store = cls(folder)
        if not (store.folder / "reaper.json").is_file():
            raise UserError(f"{folder} is not a run of reaper: it has no reaper.json")
        store._header()
        return store

    @classmethod
    def open_for(cls, folder: str | Path, common: Mapping[str, Any]) -> Store:
        """A new or existing run, for writing: locked, and refused when it was made with other settings."""
        store = cls(folder)
        try:
            store.folder.mkdir(parents=True, exist_ok=True)
            store._take_lock()
            if not (store.folder / "reaper.json").exists():
                if any(p.name != "lock" for p in store.folder.iterdir()):
                    raise UserError(f"{folder} is not empty and not a run of reaper; choose another --out")
                store.write_json(store.folder / "reaper.json", {"format": FORMAT, **common})
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
        store._compare(store._header(), common)
        for leftover in (store.folder / "stages").glob(".*"):
            shutil.rmtree(leftover)
        return store

    def _header(self) -> dict[str, Any]:
        header = read_json(self.folder / "reaper.json")
        if header.get("format") != FORMAT:
            raise UserError(
                f"{self.folder} was made by an incompatible version (format {header.get('format')}, this one writes "
                f"{FORMAT}); choose another --out"
            )
        return header

    @property
    def common(self) -> dict[str, Any]:
        return self._header()

    def _compare(self, header: Mapping[str, Any], common: Mapping[str, Any]) -> None:
        for key, value in common.items():
            if key != "version" and header.get(key) != json.loads(json.dumps(value)):
                what = f"{key}: {_first_difference(header.get(key), value, key)}"
                raise UserError(f"{self.folder} was made with other settings ({what}); choose another --out")

    def _take_lock(self) -> None:
        """Held by the open file, so a killed process never leaves it behind."""
        self._lock = (self.folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another run is writing to {self.folder}; wait for it or choose another --out") from None

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    # -- stages

    def path_of(self, digest: str) -> Path:
        return self.folder / "stages" / digest

    def has(self, digest: str) -> bool:
        return (self.path_of(digest) / "manifest.json").exists()

    def stage(self, digest: str) -> Artefact:
        if not self.has(digest):
            raise UserError(f"stage {digest} is not in {self.folder}: the run is not finished")
        return Artefact(self.path_of(digest))

    def write_stage(
        self,
        digest: str,
        about: Mapping[str, Any],
        tensors: Mapping[str, Mapping[str, torch.Tensor]],
        documents: Mapping[str, Any],
        made: Mapping[str, Any],
    ) -> None:
        """All files of a stage appear together, by renaming their folder."""
        stages = self.folder / "stages"
        building = stages / f".{digest}.{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        for name, group in tensors.items():
            _write(building / f"{name}.safetensors", save({k: t.contiguous() for k, t in group.items()}))
        for name, document in documents.items():
            _write(building / f"{name}.json", canonical(document).encode())
        files = {
            path.name: {"sha256": _sha256(path), "bytes": path.stat().st_size} for path in sorted(building.iterdir())
        }
        self.write_json(building / "made.json", made)
        self.write_json(building / "manifest.json", {"format": FORMAT, **about, "digest": digest, "files": files})
        if not self.path_of(digest).exists():
            building.rename(self.path_of(digest))

    # -- runs

    def write_json(self, path: Path, value: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())

    def write_run(self, name: str, record: Mapping[str, Any]) -> None:
        self.write_json(self.folder / "runs" / f"{name}.json", record)

    def runs(self) -> list[dict[str, Any]]:
        return [read_json(path) for path in sorted((self.folder / "runs").glob("*.json"))]


def _first_difference(old: Any, new: Any, name: str) -> str:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in new:
            if old.get(key) != new[key]:
                return _first_difference(old.get(key), new[key], f"{name}.{key}" if name != "settings" else key)
    return f"{name} was {old}, now {new}"
