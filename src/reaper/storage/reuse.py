"""Reusing finished stages of packs and other output folders.

A stage is named by all that it depends on, so any study that has it can take it from wherever it was run, whatever the
settings of the rest: teachers for a new method, or a memory that learns one more task.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from reaper.errors import StorageFailed, UserError
from reaper.storage.convert import unpacked
from reaper.storage.files import storing
from reaper.storage.pack import check_run, move
from reaper.storage.pack_file import PACK_FORMAT, Pack
from reaper.storage.store import Store


def stages_in(source: Path) -> set[str]:
    """The digests of the finished stages in a pack or an output folder. Packs of earlier versions name them otherwise,
    so theirs are not known before they are unpacked."""
    if source.is_dir():
        return set(Store.open(source).stages())
    with _run_pack(source) as pack:
        return _stages_of(pack)


def reuse_stages(store: Store, needed: Collection[str], source: Path) -> int:
    """Adds the stages that are needed, not in the store yet and finished in the source; returns how many."""
    missing = [digest for digest in needed if not store.has(digest)]
    if source.is_dir():
        return _add(Store.open(source), store, missing, _copy)
    with _run_pack(source) as pack:
        if pack.format == PACK_FORMAT and not _stages_of(pack) & set(missing):
            return 0
        with unpacked(pack, _part(store.folder / source.name)) as folder:
            check_run(folder)
            return _add(Store.open(folder), store, missing, move)


def _run_pack(source: Path) -> Pack:
    pack = Pack(source)
    if pack.kind == "weights":
        pack.close()
        raise UserError(f"{source} holds one long-term memory; --reuse needs a run, --continue-from takes a memory")
    return pack


def _stages_of(pack: Pack) -> set[str]:
    return {Path(name).parts[1] for name in pack.files if name.startswith("stages/")}


def _add(incoming: Store, store: Store, digests: Collection[str], place: Callable[[Path, Path], None]) -> int:
    finished = [digest for digest in digests if incoming.has(digest)]
    for digest in finished:
        incoming.stage(digest).check()  # against its checksums
        try:
            place(incoming.path_of(digest), store.path_of(digest))
        except StorageFailed:
            if not store.has(digest):  # else a process that shares the store was first
                raise
    return len(finished)


def _copy(source: Path, target: Path) -> None:
    part = _part(target)
    try:
        with storing(target):
            shutil.copytree(source, part)
        move(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _part(path: Path) -> Path:
    """A hidden name next to a path, for what is incomplete: a store removes it if this process is killed."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")
