"""Sending finished stages and checkpoints between machines that share no disk.

A parcel is the files of one checksummed folder. What arrives is written under another name, verified against its own
manifest, and only then renamed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from reaper.errors import DamagedArtefact
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.checksummed_dir import OWN_FILES, ChecksummedDir
from reaper.storage.files import atomic_dir, storing
from reaper.storage.store import Artefact, Store

Parcel = dict[str, np.ndarray]  # file name -> its bytes; arrays, because Ray passes those on without copies
NumberedParcel = tuple[int, Parcel]  # a checkpoint with its number
NO_CHECKPOINT: NumberedParcel = (0, {})


def pack(folder: Path) -> Parcel:
    """The files of a folder, verified."""
    saved = ChecksummedDir(folder)
    saved.check()
    return {name: np.fromfile(folder / name, np.uint8) for name in (*OWN_FILES, *saved.files)}


def unpack(parcel: Mapping[str, np.ndarray], folder: Path, digest: str, kind: Callable[[Path], ChecksummedDir]) -> None:
    """Writes a parcel to `folder`, if it is intact and the one that was expected."""
    for name in parcel:
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise DamagedArtefact(folder, f"was sent a file named {name!r}, which is refused")
    with atomic_dir(folder) as building:
        for name, data in parcel.items():
            data.tofile(building / name)
        saved = kind(building)
        if set(parcel) != {*OWN_FILES, *saved.files} or saved.contents.get("digest") != digest:
            raise DamagedArtefact(folder, f"was sent something else than {digest}")
        saved.check()


def unpack_stage(parcel: Mapping[str, np.ndarray], store: Store, digest: str) -> None:
    """Writes a finished stage, unless the store has it, and removes its checkpoints."""
    folder = store.path_of(digest)
    if folder.is_dir() and not _is_intact(folder):
        with storing(folder):
            shutil.rmtree(folder)
    if not folder.is_dir():
        unpack(parcel, folder, digest, Artefact)
    shutil.rmtree(store.unfinished(digest), ignore_errors=True)


def _is_intact(folder: Path) -> bool:
    try:
        Artefact(folder, folder.name).check()
    except DamagedArtefact:
        return False
    return True


def pack_checkpoint(store: Store, digest: str) -> NumberedParcel:
    """The newest intact checkpoint of a stage."""
    checkpoints = CheckpointDir(store.unfinished(digest), digest)
    for number in reversed(checkpoints.numbers()):
        try:
            return number, pack(checkpoints.folder / str(number))
        except DamagedArtefact:
            continue  # the one before it is kept for this case
    return NO_CHECKPOINT


def unpack_checkpoint(numbered: NumberedParcel, store: Store, digest: str) -> None:
    """Writes a checkpoint, unless the store has it or a newer one."""
    number, parcel = numbered
    folder = store.unfinished(digest)
    if number > max(CheckpointDir(folder, digest).numbers(), default=0):
        unpack(parcel, folder / f"{number:d}", digest, ChecksummedDir)
