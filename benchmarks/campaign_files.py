"""The files that a campaign transfers in one flat folder: its description, timed-out stages, and a pack in pieces."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.storage.files import read_checksummed
from reaper.storage.pack import export_stages
from reaper.storage.pack_file import Pack
from reaper.storage.store import Store
from reaper.study.options import StudyOptions
from reaper.study.plan import Plan, plan

PIECE_BYTES = 15 << 20  # a file may have 16 MiB
DESCRIPTION = "campaign.json"
TIMED_OUT = "timed_out.json"
COLLECTED = "collected.json"
STEM = "stages."


def read_plan(folder: Path, **resources: Any) -> Plan:
    """The study of a campaign."""
    description = read_checksummed(folder / DESCRIPTION)
    return plan(description["conditions"], campaign_options(description, **resources))


def campaign_options(description: Mapping[str, Any], **resources: Any) -> StudyOptions:
    """The options of the study, with the resources of this machine."""
    study = {name: description.get(name) for name in ("tasks", "seeds", "preset", "fraction", "overrides")}
    return StudyOptions(**study, **{"device": "cpu", **resources})


def read_timed_out(folder: Path) -> dict[str, float]:
    """Stages that did not finish within a slice, and the seconds they had."""
    return read_checksummed(folder / TIMED_OUT)["seconds"] if (folder / TIMED_OUT).is_file() else {}


def _split(file: Path, folder: Path) -> list[Path]:
    """Writes a file to a folder in pieces."""
    pieces = []
    with file.open("rb") as source:
        while data := source.read(PIECE_BYTES):
            pieces.append(folder / f"{STEM}{len(pieces):02d}")
            pieces[-1].write_bytes(data)
    return pieces


@contextmanager
def joined_pack(folder: Path) -> Iterator[Path]:
    """Joins the pieces in a folder to a temporary pack."""
    pieces = sorted(folder.glob(f"{STEM}[0-9][0-9]"))
    if not pieces:
        raise UserError(f"{folder} holds no pieces of a pack ({STEM}00 and so on)")
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "stages"
        with file.open("wb") as target:
            for piece in pieces:
                target.write(piece.read_bytes())
        yield file


def stages_in(file: Path) -> frozenset[str]:
    """The digests of the stages in a pack."""
    with Pack(file) as pack:
        return frozenset(name.split("/")[1] for name in pack.files if name.startswith("stages/"))


def write_pieces(store: Store, files: dict[str, set[str]], *, description: Path, folder: Path, room: int) -> None:
    """Packs these files of each stage and writes the pack to a folder in pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{STEM}*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "stages"
        about = export_stages(store, file, files)
        pieces = _split(file, folder)
    shutil.copyfile(description, folder / DESCRIPTION)
    size = sum(piece.stat().st_size for piece in pieces)
    print(f"{folder}: {about}, {size:,} bytes in {len(pieces)} files", flush=True)
    if size > room:
        raise UserError(f"{size:,} bytes are more than the {room:,} that can be transferred")
