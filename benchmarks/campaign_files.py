"""A campaign's files on the way: its description, what was lost, and a pack cut into pieces, all in one flat folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.storage.files import read_checksummed
from reaper.storage.pack_file import Pack
from reaper.storage.store import Store
from reaper.storage.thinning import export_stages
from reaper.study.options import StudyOptions
from reaper.study.plan import Plan, plan

PIECE = 15 << 20  # bytes; a file may have 16 MiB
DESCRIPTION = "campaign.json"
LOST = "lost.json"
COLLECTED = "collected.json"
STEM = "stages."


def read_plan(folder: Path, **means: Any) -> Plan:
    """The study that a campaign carries out."""
    about = read_checksummed(folder / DESCRIPTION)
    return plan(about["conditions"], options_of(about, **means))


def options_of(about: Mapping[str, Any], **means: Any) -> StudyOptions:
    """The study's options, and what it is run with."""
    words = {name: about[name] for name in ("tasks", "seeds", "fraction", "overrides")}
    return StudyOptions(**words, **{"device": "cpu", **means})


def read_lost(folder: Path) -> dict[str, float]:
    """Stages that ran out of time, and after how many seconds."""
    return read_checksummed(folder / LOST)["seconds"] if (folder / LOST).is_file() else {}


def _cut(file: Path, folder: Path) -> list[Path]:
    """The file in pieces, into a flat folder."""
    pieces = []
    with file.open("rb") as source:
        while data := source.read(PIECE):
            pieces.append(folder / f"{STEM}{len(pieces):02d}")
            pieces[-1].write_bytes(data)
    return pieces


@contextmanager
def joined(folder: Path) -> Iterator[Path]:
    """The pack whose pieces lie in a folder."""
    pieces = sorted(folder.glob(f"{STEM}[0-9][0-9]"))
    if not pieces:
        raise UserError(f"{folder} holds no pieces of a pack ({STEM}00 and so on)")
    with tempfile.TemporaryDirectory() as near:
        file = Path(near) / "stages"
        with file.open("wb") as target:
            for piece in pieces:
                target.write(piece.read_bytes())
        yield file


def stages_in(file: Path) -> frozenset[str]:
    """The digests of the stages in a pack."""
    with Pack(file) as pack:
        return frozenset(name.split("/")[1] for name in pack.files if name.startswith("stages/"))


def hand_over(store: Store, kept: dict[str, set[str]], description: Path, folder: Path, room: int) -> None:
    """Fills a folder with the pieces of a pack."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{STEM}*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as near:
        file = Path(near) / "stages"
        about = export_stages(store, file, kept)
        pieces = _cut(file, folder)
    shutil.copyfile(description, folder / DESCRIPTION)
    size = sum(piece.stat().st_size for piece in pieces)
    print(f"{folder}: {about}, {size:,} bytes in {len(pieces)} files", flush=True)
    if size > room:
        raise UserError(f"{size:,} bytes are more than the {room:,} that can travel")
