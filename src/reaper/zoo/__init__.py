"""Trained long-term memories that come with the package: `pretrained:NAME` wherever a path to an agent is expected.

Each entry is three files in this folder: NAME.reaper, a pack in half precision; NAME.json, checksummed, with the pack's
own checksum and its measured scores; and NAME.md, its model card. `benchmarks/make_zoo.py` writes all three from a
finished run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reaper.errors import DamagedArtefact, UserError, unknown
from reaper.storage.files import read_checksummed, sha256

FOLDER = Path(__file__).parent
PREFIX = "pretrained:"


@dataclass(frozen=True)
class Entry:
    """One trained long-term memory with its measured scores."""

    name: str
    folder: Path
    facts: dict[str, Any]

    @property
    def pack(self) -> Path:
        return self.folder / f"{self.name}.reaper"

    @property
    def card(self) -> str:
        path = self.folder / f"{self.name}.md"
        try:
            return path.read_text()
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}; install the package again") from None

    def check(self) -> None:
        """Raises UserError unless the pack is the one whose scores were measured."""
        found = sha256(self.pack) if self.pack.is_file() else None
        if found != self.facts["sha256"]:
            what = "is missing" if found is None else "is not the pack whose scores were measured"
            raise UserError(f"{self.pack} {what}; install the package again")


def entries(folder: Path = FOLDER) -> dict[str, Entry]:
    """All entries by name."""
    found = {path.stem: Entry(path.stem, path.parent, read_checksummed(path)) for path in sorted(folder.glob("*.json"))}
    for entry in found.values():
        if not {"sha256", "bytes", "tasks", "titles", "scores", "condition"} <= entry.facts.keys():
            raise DamagedArtefact(entry.folder / f"{entry.name}.json", "does not describe a pack")
    return found


def pretrained(name: str) -> Entry:
    known = entries()
    if name not in known:
        raise unknown("pretrained agent", name, known)
    return known[name]


def locate(text: str | Path) -> Path:
    """The path of an agent: the given one, or that of the pack behind `pretrained:NAME`."""
    if not str(text).startswith(PREFIX):
        return Path(text)
    entry = pretrained(str(text)[len(PREFIX) :])
    entry.check()
    return entry.pack
