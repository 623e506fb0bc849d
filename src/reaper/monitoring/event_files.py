"""TensorBoard event files: records of a length, its checksum, a protocol buffer and its checksum.

tensorboardX provides the protocol buffers and the checksum. We do not use its writer: it writes from a thread, whose
failure would show as a full queue, and it cannot remove points that a resumed stage will log again.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PATTERN = "events.out.tfevents.*"
VERSION = "brain.Event:2"  # what readers look for in the first record


@cache
def _protobuf_types() -> tuple[Any, Any]:
    """Event and Summary. Importing them takes a while, so commands that write no curves do not."""
    events, summaries = (import_module(f"tensorboardX.proto.{name}_pb2") for name in ("event", "summary"))
    return events.Event, summaries.Summary


def new_event(step: int, values: list[Any]) -> Any:
    Event, Summary = _protobuf_types()
    return Event(wall_time=time.time(), step=step, summary=Summary(value=values))


def scalar_value(tag: str, value: float) -> Any:
    return _protobuf_types()[1].Value(tag=tag, simple_value=value)


def image_value(tag: str, png: bytes, size: tuple[int, int]) -> Any:
    Summary = _protobuf_types()[1]
    image = Summary.Image(width=size[0], height=size[1], colorspace=3, encoded_image_string=png)
    return Summary.Value(tag=tag, image=image)


def _encode(event: Any) -> bytes:
    from tensorboardX.record_writer import masked_crc32c

    data = event.SerializeToString()
    length = struct.pack("<Q", len(data))
    length_crc, data_crc = (struct.pack("<I", masked_crc32c(part)) for part in (length, data))
    return length + length_crc + data + data_crc


def read_events(path: Path) -> Iterator[Any]:
    """The events of a file up to its end, or up to the record during which its writer was killed."""
    from google.protobuf.message import DecodeError
    from tensorboardX.record_writer import masked_crc32c

    Event = _protobuf_types()[0]
    data, start = path.read_bytes(), 0
    while start + 12 <= len(data):
        (length,), (check,) = struct.unpack_from("<Q", data, start), struct.unpack_from("<I", data, start + 8)
        end = start + 12 + length
        if check != masked_crc32c(data[start : start + 8]) or end + 4 > len(data):
            return
        body = data[start + 12 : end]
        if struct.unpack_from("<I", data, end)[0] != masked_crc32c(body):
            return
        try:
            yield Event.FromString(body)
        except DecodeError:
            return
        start = end + 4


def write_events(path: Path, events: Iterable[Any]) -> None:
    """Writes a whole file atomically."""
    Event = _protobuf_types()[0]
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # another process may write the same file
    version = Event(wall_time=time.time(), file_version=VERSION)
    part.write_bytes(b"".join(map(_encode, (version, *events))))
    os.replace(part, path)


class CurveFile:
    """The curves of one stage: a folder with one event file, to which points are added in the order of their steps.

    A stage resumes from its last checkpoint, so points beyond it are removed: the remaining points go into a new file,
    and the old one is deleted. (A reader that follows the folder notices new names, but not changes inside a file that
    it has read.) Points that are already in the file are not added again.
    """

    def __init__(self, folder: Path, runner: str) -> None:
        self._folder, self._runner, self._files_written = folder, runner, 0
        self.last_steps: dict[str, int] = {}  # tag -> last step of the curve
        folder.mkdir(parents=True, exist_ok=True)
        self.path = self._rewrite({})

    def truncate(self, groups: Iterable[str], step: int) -> None:
        """Removes the points of the curves of these groups ("training/...") beyond a step."""
        names = set(groups)
        limits = {tag: step for tag, last in self.last_steps.items() if tag.split("/")[0] in names and last > step}
        if limits:
            self.path = self._rewrite(limits)

    def add(self, step: int, values: Iterable[Any]) -> None:
        new = [value for value in values if self.last_steps.get(value.tag, -1) < step]
        if new:
            with self.path.open("ab") as file:
                file.write(_encode(new_event(step, new)))
            self.last_steps.update((value.tag, step) for value in new)

    def _rewrite(self, limits: Mapping[str, int]) -> Path:
        """Replaces the files in the folder by one with their points up to the limits (tag -> last step)."""
        old = sorted(self._folder.glob(PATTERN))
        events: list[Any] = []
        self.last_steps = {}
        for event in (event for path in old for event in read_events(path)):
            remaining = [
                value
                for value in event.summary.value
                if self.last_steps.get(value.tag, -1) < event.step <= limits.get(value.tag, event.step)
            ]
            self.last_steps.update((value.tag, event.step) for value in remaining)
            if remaining:
                del event.summary.value[:]
                event.summary.value.extend(remaining)
                events.append(event)
        self._files_written += 1
        path = self._folder / f"events.out.tfevents.{int(time.time()):010d}.{self._runner}.{self._files_written}"
        write_events(path, events)
        for leftover in (*old, *self._folder.glob(".*.part")):
            leftover.unlink(missing_ok=True)
        return path
