"""Sending finished stages and checkpoints between machines that share no disk.

The files of one checksummed folder are sent together. What arrives is written under another name, verified against its
own manifest, and only then renamed.
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

FileBytes = dict[str, np.ndarray]  # file name -> its bytes; arrays, because Ray passes those on without copies
NumberedFiles = tuple[int, FileBytes]  # a checkpoint with its number
NO_CHECKPOINT: NumberedFiles = (0, {})


def pack(folder: Path) -> FileBytes:
    """The files of a folder, verified."""
    saved = ChecksummedDir(folder)
    saved.check()
    return {name: np.fromfile(folder / name, np.uint8) for name in (*OWN_FILES, *saved.files)}


def unpack(files: Mapping[str, np.ndarray], folder: Path, digest: str, kind: Callable[[Path], ChecksummedDir]) -> None:
    """Writes what arrived to `folder`, if it is intact and what was expected."""
    for name in files:
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise DamagedArtefact(folder, f"was sent a file named {name!r}, which is refused")
    with atomic_dir(folder) as building:
        for name, data in files.items():
            data.tofile(building / name)
        saved = kind(building)
        if set(files) != {*OWN_FILES, *saved.files} or saved.contents.get("digest") != digest:
            raise DamagedArtefact(folder, f"was sent something else than {digest}")
        saved.check()


def unpack_stage(files: Mapping[str, np.ndarray], store: Store, digest: str) -> None:
    """Writes a finished stage, unless the store has it, and removes its checkpoints."""
    folder = store.path_of(digest)
    if folder.is_dir() and not _is_intact(folder):
        with storing(folder):
            shutil.rmtree(folder)
    if not folder.is_dir():
        unpack(files, folder, digest, Artefact)
    shutil.rmtree(store.unfinished(digest), ignore_errors=True)


def _is_intact(folder: Path) -> bool:
    try:
        Artefact(folder, folder.name).check()
    except DamagedArtefact:
        return False
    return True


def pack_checkpoint(store: Store, digest: str) -> NumberedFiles:
    """The newest intact checkpoint of a stage."""
    checkpoints = CheckpointDir(store.unfinished(digest), digest)
    for number in reversed(checkpoints.numbers()):
        try:
            return number, pack(checkpoints.folder / str(number))
        except DamagedArtefact:
            continue  # the one before it is kept for this case
    return NO_CHECKPOINT


def unpack_checkpoint(numbered: NumberedFiles, store: Store, digest: str) -> None:
    """Writes a checkpoint, unless the store has it or a newer one."""
    number, files = numbered
    folder = store.unfinished(digest)
    if number > max(CheckpointDir(folder, digest).numbers(), default=0):
        unpack(files, folder / f"{number:d}", digest, ChecksummedDir)
