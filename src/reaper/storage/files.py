"""Files that can be trusted: whole or not there, on the disk before they count, checked when read, never able to run
code; and locks that die with the process that holds them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import safetensors
import torch
from safetensors.torch import load_file, save_file

from reaper.errors import DamagedArtefact, StorageFailed, UserError

MANIFEST = "manifest.json"
UNCHECKED = "made.json"  # sealed by itself: it says when and where, so it differs between two equal runs
FILE_NAME = re.compile(r"[a-z_]+\.(json|safetensors)")  # of everything in a folder that `write_folder` made
LARGEST_HEADER = 16 << 20  # bytes; what describes the tensors of a file is a few kilobytes


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns whatever a disk can do to a write into one line."""
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "make room" if "space" in reason or "quota" in reason.lower() else "see that it can be written to"
        raise StorageFailed(
            f"cannot write {path}: {reason}; {hint} and run the same command again: it goes on from what is whole"
        ) from None


# -- JSON


def canonical(value: Any) -> str:
    """JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        raise DamagedArtefact(path, "cannot be read as JSON") from None


def checksummed(value: Mapping[str, Any]) -> bytes:
    """A JSON object that carries its own checksum, in its only spelling."""
    seal = hashlib.sha256(canonical(value).encode()).hexdigest()
    return (json.dumps({**value, "seal": seal}, indent=1, sort_keys=True) + "\n").encode()


def verify_checksum_of(data: bytes) -> dict[str, Any] | None:
    """The object without its seal; None for anything but exactly what was written."""
    try:
        value = json.loads(data)
        if isinstance(value, dict) and value.pop("seal", None) and data == checksummed(value):
            return value
    except (ValueError, RecursionError):
        return None
    return None


def read_checksummed(path: Path) -> dict[str, Any]:
    try:
        value = verify_checksum_of(path.read_bytes())
    except OSError as error:
        raise DamagedArtefact(path, f"cannot be read ({error.strerror})") from None
    if value is None:
        raise DamagedArtefact(path, "is not as it was written")
    return value


def write_checksummed(path: Path, value: Mapping[str, Any]) -> None:
    atomic_write(path, checksummed(value))


# -- writing


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def atomic_write(path: Path, data: bytes) -> None:
    """Whole and on the disk, or not there."""
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_bytes(data)
            sync(part)
            part.replace(path)
            sync(path.parent)
        except OSError:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_dir(folder: Path) -> Iterator[Path]:
    """A folder whose files appear together: filled under another name, synced, then renamed."""
    building = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with storing(folder):
        shutil.rmtree(building, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)  # and not its parents: an output folder that is gone stays gone
        building.mkdir()
        try:
            yield building
            for path in (*building.iterdir(), building):
                sync(path)
            building.rename(folder)
            sync(folder.parent)
        except Exception as error:
            shutil.rmtree(building, ignore_errors=True)
            if getattr(error, "errno", None) not in (errno.ENOTEMPTY, errno.EEXIST) or not folder.is_dir():
                raise  # else another process has finished the same work, with the same bytes


def write_folder(
    folder: Path,
    about: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    documents: Mapping[str, Any],
    made: Mapping[str, Any],
) -> None:
    """Results and the manifest that they are checked against."""
    with atomic_dir(folder) as building:
        for name, group in tensors.items():
            save_file({k: t.contiguous() for k, t in group.items()}, building / f"{name}.safetensors")
        for name, document in documents.items():
            (building / f"{name}.json").write_text(canonical(document))
        files = {p.name: {"sha256": sha256(p), "bytes": p.stat().st_size} for p in sorted(building.iterdir())}
        (building / UNCHECKED).write_bytes(checksummed(made))
        (building / MANIFEST).write_bytes(checksummed({**about, "files": files}))


class Folder:
    """A folder that `write_folder` made, opened for reading: nothing in it is used before it is checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = read_checksummed(folder / MANIFEST)
        self.files: dict[str, dict[str, Any]] = self.manifest.get("files", {})
        self.left_out: dict[str, dict[str, Any]] = self.manifest.get("left_out", {})  # on the way (thinning.py)
        listed = (self.files, self.left_out)
        if not all(isinstance(part, dict) and all(_is_listed(*entry) for entry in part.items()) for part in listed):
            raise DamagedArtefact(folder / MANIFEST, "lists files that no version writes")

    @property
    def listed(self) -> dict[str, dict[str, Any]]:
        """All that was ever written here, also what is not here any more."""
        return {**self.left_out, **self.files}

    def checked(self, name: str) -> Path:
        path, entry = self.folder / name, self.files.get(name)
        if name in self.left_out:
            raise UserError(f"{path} was left out when its run was packed; bring it as a whole, or make it again")
        try:
            whole = entry and path.stat().st_size == entry["bytes"] and sha256(path) == entry["sha256"]
        except OSError:
            whole = False
        if not whole:
            raise DamagedArtefact(path, "does not match its checksum" if path.exists() else "is missing")
        return path

    def has(self, name: str) -> bool:
        return name in self.files

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return read_tensors(self.checked(f"{name}.safetensors"))

    def document(self, name: str) -> Any:
        return read_json(self.checked(f"{name}.json"))

    def made(self) -> dict[str, Any]:
        return read_checksummed(self.folder / UNCHECKED)

    def check(self) -> None:
        self.made()
        for name in self.files:
            self.checked(name)


def _is_listed(name: str, entry: Any) -> bool:
    """A plain name with a size and a checksum: a manifest may come from anywhere."""
    return bool(FILE_NAME.fullmatch(name)) and isinstance(entry, dict) and {"bytes", "sha256"} <= entry.keys()


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; a file that only pretends to be one is refused before it is parsed."""
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > min(LARGEST_HEADER, path.stat().st_size):
            raise DamagedArtefact(path, f"is not a safetensors file (its header would have {header:,} bytes)")
        return load_file(path)
    except OSError as error:
        raise DamagedArtefact(path, f"cannot be read ({error.strerror or error})") from None
    except safetensors.SafetensorError as error:
        raise DamagedArtefact(path, f"is not a safetensors file ({error})") from None


# -- locks


class Lock:
    """A lock on a path, held through an open file: the system lets go of it when its process ends, however it ends.

    Works between machines where the file system passes flock on, as NFS (version 3 with its lock daemon, 4 by itself),
    Lustre (mounted with flock) and GPFS do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self, shared: bool = False) -> bool:
        """Whether the lock could be had at once."""
        with storing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with storing(self.path):
                file = self.path.open("a")
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            except OSError as error:
                file.close()
                raise UserError(
                    f"{self.path} cannot be locked ({error.strerror}); choose an --out on a file system with locks"
                ) from None
            if self._is_still(file):
                self._file = file
                return True
            file.close()  # its last holder has just removed it

    def _is_still(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except OSError:
            return False

    def release(self, remove: bool = False) -> None:
        if self._file:
            if remove:
                self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None
