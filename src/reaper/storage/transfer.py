"""Folders as parcels: how finished stages and checkpoints travel between machines that share no disk.

A parcel is the files of one folder that `write_folder` made. What arrives is written under another name, checked
against its own manifest, and only then given its name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from reaper.errors import DamagedArtefact
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.files import MANIFEST, UNCHECKED, Folder, atomic_dir, storing
from reaper.storage.store import Artefact, Store

Parcel = dict[str, np.ndarray]  # file name -> its bytes; arrays, because those are passed on without copies
Numbered = tuple[int, Parcel]  # a checkpoint and its number
NO_CHECKPOINT: Numbered = (0, {})


def pack(folder: Path) -> Parcel:
    """The files of a folder, once they have been found whole."""
    saved = Folder(folder)
    saved.check()
    return {name: np.fromfile(folder / name, np.uint8) for name in (MANIFEST, UNCHECKED, *saved.files)}


def unpack(parcel: Mapping[str, np.ndarray], folder: Path, digest: str, kind: Callable[[Path], Folder]) -> None:
    """Writes what has arrived to `folder`, if it is whole and what it should be."""
    for name in parcel:
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise DamagedArtefact(folder, f"was sent a file named {name!r}, which is refused")
    with atomic_dir(folder) as building:
        for name, data in parcel.items():
            data.tofile(building / name)
        saved = kind(building)
        if set(parcel) != {MANIFEST, UNCHECKED, *saved.files} or saved.manifest.get("digest") != digest:
            raise DamagedArtefact(folder, f"was sent something else than {digest}")
        saved.check()


def unpack_stage(parcel: Mapping[str, np.ndarray], store: Store, digest: str) -> None:
    """A finished stage, unless the store has it; its checkpoints have then done their work."""
    folder = store.path_of(digest)
    if folder.is_dir() and not _is_whole(folder):
        with storing(folder):
            shutil.rmtree(folder)
    if not folder.is_dir():
        unpack(parcel, folder, digest, Artefact)
    shutil.rmtree(store.unfinished(digest), ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    try:
        Artefact(folder, folder.name).check()
    except DamagedArtefact:
        return False
    return True


def pack_checkpoint(store: Store, digest: str) -> Numbered:
    """The newest whole checkpoint of a stage."""
    shelf = CheckpointDir(store.unfinished(digest), digest)
    for number in reversed(shelf.numbers()):
        try:
            return number, pack(shelf.folder / str(number))
        except DamagedArtefact:
            continue  # the one before it is kept for this
    return NO_CHECKPOINT


def unpack_checkpoint(numbered: Numbered, store: Store, digest: str) -> None:
    """A checkpoint, unless the store has it or a newer one."""
    number, parcel = numbered
    folder = store.unfinished(digest)
    if number > max(CheckpointDir(folder, digest).numbers(), default=0):
        unpack(parcel, folder / f"{number:d}", digest, Folder)
