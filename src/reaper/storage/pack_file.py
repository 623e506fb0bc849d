"""A pack: one zip file with a checksummed index of all that is in it.

A pack may come from anywhere, so nothing in it is trusted: every name is matched against a pattern, every size and
checksum against the index, and the space it needs against the space that is free, before a byte of it is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.files import checksummed, parse_checksummed, storing, sync
from reaper.storage.manifests import FileEntry, Files

INDEX = "reaper-pack.json"
PACK_FORMAT = 2
FORMAT_1_CHECKSUM = "seal"  # the key of an index's checksum in format 1
MAX_INDEX_BYTES = 64 << 20  # bytes: some hundred thousand files
CHUNK = 1 << 20
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # the same for all, so that equal contents make equal packs
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    IndexError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)

_FILE = r"[a-z_]+\.(json|safetensors)"
_NAMES = {
    "run": re.compile(
        rf"reaper\.json|(runs|experiments)/[^/\\:.\x00-\x1f][^/\\:\x00-\x1f]{{0,200}}\.json|stages/[0-9a-f]{{20}}/{_FILE}"
        rf"|unfinished/[0-9a-f]{{20}}/[1-9][0-9]{{0,9}}/{_FILE}"
    ),
    "weights": re.compile(r"(manifest|provenance|made|memory)\.json|(agent|retained)\.safetensors"),
}


class PackWriter:
    """A pack being written; its index is its last file."""

    def __init__(self, zipped: zipfile.ZipFile, kind: str) -> None:
        self._zipped, self._kind = zipped, kind
        self.files: Files = {}

    def add(self, name: str, source: IO[bytes]) -> FileEntry:
        """Packs an open file; returns its size and checksum."""
        if not _NAMES[self._kind].fullmatch(name):
            raise UserError(f"{name!r} cannot be packed: no run has a file of this name")
        digest, size = hashlib.sha256(), 0
        with self._zipped.open(_described(name), "w", force_zip64=True) as target:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                target.write(chunk)
        self.files[name] = FileEntry(size, digest.hexdigest())
        return self.files[name]

    def finish(self) -> None:
        index = {
            "format": PACK_FORMAT,
            "kind": self._kind,
            "files": {name: asdict(entry) for name, entry in self.files.items()},
        }
        self._zipped.writestr(_described(INDEX), checksummed(index))


def _described(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIMESTAMP)
    info.compress_type = zipfile.ZIP_DEFLATED
    info._compresslevel = 1  # pyright: ignore[reportAttributeAccessIssue]  # weights hardly shrink, frames do at once
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


@contextmanager
def new_pack(path: Path, kind: str, overwrite: bool = False) -> Iterator[PackWriter]:
    """Writes a pack that is complete and on the disk, or absent."""
    if path.is_dir() or (path.exists() and not overwrite):
        raise UserError(f"{path} already exists; choose another name" + ("" if path.is_dir() else " or --overwrite"))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                zipped = zipfile.ZipFile(file, "w")
                try:
                    writer = PackWriter(zipped, kind)
                    yield writer
                    writer.finish()
                    zipped.close()
                finally:
                    zipped.fp = (
                        None  # or, after a failure, the garbage collector would write the end of the zip file again
                    )
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync(path.parent)
        finally:
            part.unlink(missing_ok=True)


class Pack:
    """A pack opened for reading: its index has been checked, and its files are verified while they are unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UserError(f"{path} does not exist, or is not a file")
        try:
            self._zipped = zipfile.ZipFile(path)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
        except _BROKEN_ZIP:
            raise self.refused("it is not a zip file, or it is truncated") from None
        entries = self._entries()
        index = self._read_index(entries)
        self.kind: str = index["kind"]
        self.format: int = index["format"]
        try:
            self.files: Files = {name: FileEntry.parse(entry) for name, entry in index["files"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self.refused("its index is malformed") from None
        self._check_names(entries)

    @contextmanager
    def unpacked(self, folder: Path) -> Iterator[None]:
        """Unpacks into a new folder and removes it in the end; damage found meanwhile is reported as the pack's."""
        try:
            self._unpack(folder)
            yield
        except DamagedArtefact as error:
            if not error.path.is_relative_to(folder):
                raise
            raise self.refused(f"{error.path.relative_to(folder)} {error.what}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def document(self, name: str) -> Any:
        """A checksummed JSON file, read without unpacking the rest."""
        contents = parse_checksummed(b"".join(self._chunks(name, self.files[name].bytes)))
        if contents is None:
            raise self.refused(f"{_shown(name)} does not match its checksum")
        return contents

    def refused(self, why: str) -> UserError:
        return UserError(f"{self.path} is not a valid pack of reaper: {why}; nothing was unpacked")

    def _entries(self) -> dict[str, zipfile.ZipInfo]:
        entries: dict[str, zipfile.ZipInfo] = {}
        for info in self._zipped.infolist():
            name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
            if name in entries:
                raise self.refused(f"it holds {_shown(name)} twice")
            if kind not in (0, stat.S_IFREG) or info.is_dir():
                raise self.refused(f"{_shown(name)} is not a plain file")
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self.refused(f"{_shown(name)} is compressed in a way that packs never use")
            entries[name] = info
        return entries

    def _read_index(self, entries: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
        if INDEX not in entries:
            raise self.refused("it has no index")
        if entries[INDEX].file_size > MAX_INDEX_BYTES:
            raise self.refused("its index is too large")
        data = b"".join(self._chunks(INDEX, entries[INDEX].file_size))
        index = parse_checksummed(data) or parse_checksummed(data, key=FORMAT_1_CHECKSUM)
        if index is None:
            raise self.refused("its index does not match its checksum")
        if index.get("format") not in (1, PACK_FORMAT):
            raise UserError(
                f"{self.path} was packed by another version of reaper (format {str(index.get('format'))[:20]}; this "
                f"one reads 1 and {PACK_FORMAT})"
            )
        if index.get("kind") not in _NAMES:
            raise self.refused("its index is malformed")
        return index

    def _check_names(self, entries: dict[str, zipfile.ZipInfo]) -> None:
        for name in (*self.files, *entries):
            if name != INDEX and not _NAMES[self.kind].fullmatch(name):
                raise self.refused(f"{_shown(name)} is not a name of a run's files")
            if (name in self.files) != (name in entries and name != INDEX):
                raise self.refused(f"{_shown(name)} is in the index or in the zip file, but not in both")
        for name, entry in self.files.items():
            if entries[name].file_size != entry.bytes:
                raise self.refused(f"{_shown(name)} does not have the size in the index")

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.files.values())

    def _unpack(self, folder: Path) -> None:
        """Writes every file, verified against its size and checksum, and synced; `folder` must be new."""
        free = shutil.disk_usage(folder.parent).free
        if self.bytes > free:
            raise UserError(f"{self.path} needs {self.bytes:,} bytes and only {free:,} are free; free some space")
        with storing(folder):
            folder.mkdir()
        for name, entry in self.files.items():
            self._unpack_file(name, entry, folder / name)
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            with storing(path):
                sync(path)

    def _unpack_file(self, name: str, entry: FileEntry, target: Path) -> None:
        digest = hashlib.sha256()
        with storing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                for chunk in self._chunks(name, entry.bytes):
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        if digest.hexdigest() != entry.sha256:
            raise self.refused(f"{_shown(name)} does not match its checksum")

    def _chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Never more than `size` bytes, whatever the zip file claims."""
        left = size
        try:
            with self._zipped.open(name) as source:
                while chunk := source.read(min(CHUNK, left + 1)):
                    left -= len(chunk)
                    if left < 0:
                        break
                    yield chunk
        except (*_BROKEN_ZIP, OSError):
            raise self.refused(f"{_shown(name)} cannot be unpacked") from None
        if left:
            raise self.refused(f"{_shown(name)} does not have the size in the index")

    def close(self) -> None:
        self._zipped.close()

    def __enter__(self) -> Pack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shown(name: str) -> str:
    """An untrusted name, on one line."""
    return repr(name if len(name) <= 60 else name[:57] + "...")
