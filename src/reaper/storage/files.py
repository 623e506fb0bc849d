"""Files that survive a crash: complete or absent, synced before they count, verified when read, free of code."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import safetensors
import torch
from safetensors.torch import load_file

from reaper.errors import DamagedArtefact, StorageFailed, UserError

MAX_HEADER_BYTES = 16 << 20  # of a safetensors file; real headers have a few kilobytes


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns any failure of the disk during a write into one line."""
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "free some space" if "space" in reason or "quota" in reason.lower() else "make it writable"
        raise StorageFailed(
            f"cannot write {path}: {reason}; {hint} and run the same command again: it resumes from what is complete"
        ) from None


# -- JSON


def canonical(value: Any) -> str:
    """JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(spec: Mapping[str, Any]) -> str:
    """A stage's name: a digest of everything that its result depends on."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:20]


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        raise DamagedArtefact(path, "cannot be read as JSON") from None


def checksummed(value: Mapping[str, Any], key: str = "checksum") -> bytes:
    """A JSON object that carries its own checksum, in its only spelling."""
    checksum = hashlib.sha256(canonical(value).encode()).hexdigest()
    return (json.dumps({**value, key: checksum}, indent=1, sort_keys=True) + "\n").encode()


def parse_checksummed(data: bytes, key: str = "checksum") -> dict[str, Any] | None:
    """The object without its checksum; None for anything but exactly what `checksummed` wrote."""
    try:
        value = json.loads(data)
        if isinstance(value, dict) and value.pop(key, None) and data == checksummed(value, key):
            return value
    except (ValueError, RecursionError):
        return None
    return None


def read_checksummed(path: Path, key: str = "checksum") -> dict[str, Any]:
    try:
        value = parse_checksummed(path.read_bytes(), key)
    except OSError as error:
        raise DamagedArtefact(path, f"cannot be read ({error.strerror})") from None
    if value is None:
        raise DamagedArtefact(path, "does not match its checksum")
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


def check_output_file(path: Path) -> None:
    """Raises UserError where no file can be written, before hours of work whose result would go there."""
    if not path.name or path.is_dir():
        raise UserError(f"{str(path)!r} is a folder; give the name of a file")
    parent = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not parent.is_dir():
        raise UserError(f"cannot write {path}: {parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {path}: no permission to write to {parent}")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields the path of a new file to write, which then replaces `path` as a whole, or is removed after an error."""
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file() and not path.is_dir():
            yield path  # a device or a pipe (/dev/stdout) is written to; replacing it would destroy it
            return
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            yield part
            sync(part)
            part.replace(path)
            sync(path.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def atomic_write(path: Path, data: bytes) -> None:
    """Writes a file that is complete and on the disk, or absent."""
    with atomic_file(path) as part:
        part.write_bytes(data)


@contextmanager
def atomic_dir(folder: Path) -> Iterator[Path]:
    """A folder whose files appear together: filled under another name, synced, then renamed."""
    building = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with storing(folder):
        shutil.rmtree(building, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)  # not its parents: an output folder that was removed stays removed
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
                raise  # otherwise another process has finished the same work, with the same bytes


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; anything else is refused before it is parsed."""
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > min(MAX_HEADER_BYTES, path.stat().st_size):
            raise DamagedArtefact(path, f"is not a safetensors file (its header would have {header:,} bytes)")
        return load_file(path)
    except OSError as error:
        raise DamagedArtefact(path, f"cannot be read ({error.strerror or error})") from None
    except safetensors.SafetensorError as error:
        raise DamagedArtefact(path, f"is not a safetensors file ({error})") from None
