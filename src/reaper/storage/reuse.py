"""Finished stages of packs and other output folders, for a study that has the same ones.

A stage is named by all that it depends on, so a study can take it from wherever it was run, whatever the settings of
the rest: teachers for a new method, or a memory that learns one more task.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from reaper.errors import StorageFailed, UserError
from reaper.storage.checksummed_dir import MANIFEST
from reaper.storage.convert import unpacked
from reaper.storage.files import storing
from reaper.storage.manifests import FileList
from reaper.storage.pack import check_run, move
from reaper.storage.pack_file import PACK_FORMAT, Pack
from reaper.storage.store import Store


def held_stages(source: Path) -> dict[str, frozenset[str]]:
    """The finished stages in a pack or an output folder: digest -> files that were left out when it was packed."""
    if source.is_dir():
        store = Store.open(source)
        return {digest: frozenset(store.stage(digest).left_out) for digest in store.stages()}
    with _run_pack(source) as pack:
        manifests = [Path(name) for name in pack.files if name.startswith("stages/") and name.endswith(MANIFEST)]
        listed = {path.parts[1]: FileList.from_json(pack.document(str(path)), path) for path in manifests}
        return {digest: frozenset(files.left_out) for digest, files in listed.items()}


def take_stages(store: Store, digests: Collection[str], source: Path) -> None:
    """Adds stages that the source holds to a store that does not have them."""
    if not digests:
        return
    if source.is_dir():
        _add(Store.open(source), store, digests, _copy)
        return
    with _run_pack(source) as pack, unpacked(pack, _part(store.folder / source.name)) as folder:
        check_run(folder)
        _add(Store.open(folder), store, digests, move)


def _run_pack(source: Path) -> Pack:
    pack, why = Pack(source), ""
    if pack.kind == "weights":
        why = "holds one long-term memory; --reuse needs a run, --continue-from takes a memory"
    elif pack.format != PACK_FORMAT:
        why = "was packed by an earlier version; `reaper import` unpacks it to a folder that --reuse takes"
    if why:
        pack.close()
        raise UserError(f"{source} {why}")
    return pack


def _add(incoming: Store, store: Store, digests: Collection[str], place: Callable[[Path, Path], None]) -> None:
    for digest in digests:
        incoming.stage(digest).check()  # against its checksums
        try:
            place(incoming.path_of(digest), store.path_of(digest))
        except StorageFailed:
            if not store.has(digest):  # else a process that shares the store was first
                raise


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
