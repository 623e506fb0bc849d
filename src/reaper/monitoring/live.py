"""The live files: OUT/live/DIGEST.json holds the state of one stage that is not finished.

No result depends on these files: they are not synced to disk, not checksummed and not exported.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNNING, FAILED, STOPPED, LOST = "running", "failed", "stopped", "lost"
LARGEST_NUMBER = 1e15  # anything larger was not written by us


@dataclass(frozen=True)
class LiveRecord:
    """What the process that runs a stage last wrote about it."""

    digest: str
    state: str  # one of the above, if we wrote it
    runner: str | None = None  # a random name of the process that runs the stage
    beat: float | None = None  # counts up while that process is alive
    written: float | None = None  # by that process's clock
    title: str | None = None
    kind: str | None = None
    phase: str | None = None
    unit: str | None = None
    done: float | None = None
    total: float | None = None
    score: float | None = None
    per_second: float | None = None
    seconds_left: float | None = None  # of the phase
    seconds_since_progress: float | None = None
    error: str | None = None
    exit_code: float | None = None
    earlier_error: str | None = None  # why an earlier attempt failed

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: object, digest: str) -> LiveRecord:
        """Takes every field that has the expected type and leaves out the rest: the file may come from anywhere.
        Raises ValueError if the record is not about this stage."""
        if not isinstance(record, dict) or record.get("digest") != digest or not isinstance(record.get("state"), str):
            raise ValueError("is not what a runner writes")
        return cls(**{field.name: record[field.name] for field in dataclasses.fields(cls) if _fits(field, record)})


def _fits(field: dataclasses.Field[Any], record: Mapping[str, Any]) -> bool:
    value = record.get(field.name)
    if "str" in str(field.type):
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST_NUMBER


def read_live(path: Path) -> LiveRecord | None:
    """The record in a live file; None if the file is gone. Raises ValueError if it cannot be read as one."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        raise ValueError("cannot be read as JSON") from None
    return LiveRecord.from_json(record, path.stem)
