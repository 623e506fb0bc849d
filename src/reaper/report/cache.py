"""What a report had to play or train for, kept under OUT/report, so that the next report is quick."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from reaper.errors import DamagedArtefact
from reaper.storage.files import digest_of, read_checksummed, storing, write_checksummed

Value = TypeVar("Value")


class ReportCache:
    """A folder of values, each named by a digest of all that it depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: set[Path] = set()
        self.new: dict[Path, dict[str, Any]] = {}
        self._now: dict[Any, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What several parts of one report need, made when the first asks; it is not written down."""
        if key not in self._now:
            self._now[key] = make()
        return self._now[key]

    def get(self, kind: str, inputs: Mapping[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The value that was made from these inputs before, or is made now: a JSON object."""
        path = self.folder / f"{kind}-{digest_of(inputs)}.json"
        self.used.add(path)
        try:
            return self.new.get(path) or read_checksummed(path)
        except DamagedArtefact:  # not there, or not as it was written
            self.new[path] = json.loads(json.dumps(make()))
            return self.new[path]

    @contextmanager
    def read(self, kind: str) -> Iterator[None]:
        """Around the use of a value: one that is whole but does not fit was forged, or is of another version."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise DamagedArtefact(self.folder, f"holds a {kind} that no report wrote; remove it") from None

    def settle(self) -> None:
        """Writes down what is new and forgets what nothing asked for; a report that fails before leaves no trace."""
        for path, value in self.new.items():
            write_checksummed(path, value)
        for path in set(self.folder.glob("*.json")) - self.used:
            with storing(path):
                path.unlink()


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array of bytes as JSON."""
    return {"shape": list(array.shape), "bytes": base64.b64encode(array.astype(np.uint8).tobytes()).decode()}


def decode_array(value: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(value["bytes"]), np.uint8).reshape(value["shape"])
