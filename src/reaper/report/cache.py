"""OUT/report/cache: what a report had to play or train for, so that the next report is quick."""

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
    """A folder of JSON values, each named by a digest of everything it depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: set[Path] = set()
        self.new: dict[Path, dict[str, Any]] = {}
        self._in_memory: dict[Any, Any] = {}

    def memoise(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Shares a value between the parts of one report without writing it to disk."""
        if key not in self._in_memory:
            self._in_memory[key] = make()
        return self._in_memory[key]

    def get(self, kind: str, inputs: Mapping[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The cached value for these inputs, or a new one."""
        path = self.folder / f"{kind}-{digest_of(inputs)}.json"
        self.used.add(path)
        try:
            return self.new.get(path) or read_checksummed(path)
        except DamagedArtefact:  # missing, or its checksum is wrong
            self.new[path] = json.loads(json.dumps(make()))
            return self.new[path]

    @contextmanager
    def parsing(self, kind: str) -> Iterator[None]:
        """Turns errors while parsing a value into a one-line error: its checksum is right, but not its content."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise DamagedArtefact(self.folder, f"holds a {kind} that no report wrote; remove it") from None

    def commit(self) -> None:
        """Writes new values and deletes those that this report did not use; a report that fails changes nothing."""
        for path, value in self.new.items():
            write_checksummed(path, value)
        for path in set(self.folder.glob("*.json")) - self.used:
            with storing(path):
                path.unlink()


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array of uint8 (images) or of float32 (vectors) as JSON."""
    kind = {} if array.dtype == np.uint8 else {"dtype": "float32"}
    raw = array.astype(kind.get("dtype", "uint8")).tobytes()
    return {"shape": list(array.shape), "bytes": base64.b64encode(raw).decode(), **kind}


def decode_array(value: Mapping[str, Any]) -> np.ndarray:
    dtype = np.float32 if value.get("dtype") == "float32" else np.uint8
    return np.frombuffer(base64.b64decode(value["bytes"]), dtype).reshape(value["shape"])
