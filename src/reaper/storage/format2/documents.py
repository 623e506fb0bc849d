"""The JSON documents and manifests of a stage in format 2, converted to format 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reaper.storage.checksummed_dir import ChecksummedDir
from reaper.storage.format2 import names


class OldDir(ChecksummedDir):
    """A checksummed folder of format 2."""

    checksum_key = names.CHECKSUM
    provenance_file = names.PROVENANCE


def convert_rows(rows: Any) -> Any:
    """Evaluations: one row per task and time."""
    if not isinstance(rows, list):
        return rows
    return [
        {names.ROW_KEYS.get(name, name): value for name, value in row.items()} if isinstance(row, dict) else row
        for row in rows
    ]


CONVERTERS = {"rows.json": convert_rows}


def opened(folder: Path) -> OldDir:
    """A folder of format 2, with nothing damaged and nothing added."""
    found = OldDir(folder)
    found.check()
    found.check_nothing_else()
    return found
