"""TensorBoard's event files: records of a length, its checksum, a protocol buffer and its checksum.

tensorboardX brings the buffers and the checksum. Files are written here and not by its writer, because that one writes
from a thread whose failure would be felt as a full queue, and cannot take a point back.
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
def _buffers() -> tuple[Any, Any]:
    """The classes of events and of their summaries, which are made when they are imported: here, so that commands that
    draw nothing do not wait for them."""
    events, summaries = (import_module(f"tensorboardX.proto.{name}_pb2") for name in ("event", "summary"))
    return events.Event, summaries.Summary


def new_event(step: int, values: list[Any]) -> Any:
    Event, Summary = _buffers()
    return Event(wall_time=time.time(), step=step, summary=Summary(value=values))


def scalar(tag: str, value: float) -> Any:
    return _buffers()[1].Value(tag=tag, simple_value=value)


def picture(tag: str, png: bytes, size: tuple[int, int]) -> Any:
    Summary = _buffers()[1]
    image = Summary.Image(width=size[0], height=size[1], colorspace=3, encoded_image_string=png)
    return Summary.Value(tag=tag, image=image)


def _framed(event: Any) -> bytes:
    from tensorboardX.record_writer import masked_crc32c

    data = event.SerializeToString()
    length = struct.pack("<Q", len(data))
    checks = (struct.pack("<I", masked_crc32c(part)) for part in (length, data))
    return length + next(checks) + data + next(checks)


def read_events(path: Path) -> Iterator[Any]:
    """The events of a file up to its end, or to where a process was killed while it wrote."""
    from google.protobuf.message import DecodeError
    from tensorboardX.record_writer import masked_crc32c

    Event = _buffers()[0]
    data, place = path.read_bytes(), 0
    while place + 12 <= len(data):
        (length,), (check,) = struct.unpack_from("<Q", data, place), struct.unpack_from("<I", data, place + 8)
        end = place + 12 + length
        if check != masked_crc32c(data[place : place + 8]) or end + 4 > len(data):
            return
        body = data[place + 12 : end]
        if struct.unpack_from("<I", data, end)[0] != masked_crc32c(body):
            return
        try:
            yield Event.FromString(body)
        except DecodeError:
            return
        place = end + 4


def write_events(path: Path, events: Iterable[Any]) -> None:
    """A whole file at once, under its name or not there."""
    Event = _buffers()[0]
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # another process may write the same file
    version = Event(wall_time=time.time(), file_version=VERSION)
    part.write_bytes(b"".join(map(_framed, (version, *events))))
    os.replace(part, path)


class Curves:
    """The curves of one stage: a folder with one file, to which points are added in the order of their steps.

    A stage that is taken up again goes on from its last checkpoint, so points beyond it are taken back: what is to stay
    goes into a new file, and the old one is removed. (A reader that is looking on keeps to names, not to what is in a
    file that it has read.) After that a point that is already there is not added twice.
    """

    def __init__(self, folder: Path, runner: str) -> None:
        self.folder, self.runner, self.files = folder, runner, 0
        self.last: dict[str, int] = {}  # the last step of each curve
        folder.mkdir(parents=True, exist_ok=True)
        self.path = self._rewritten({})

    def forget(self, curves: Iterable[str], step: int) -> None:
        """Takes back whatever these curves have beyond a step."""
        limits = {tag: step for tag, last in self.last.items() if tag.split("/")[0] in set(curves) and last > step}
        if limits:
            self.path = self._rewritten(limits)

    def add(self, step: int, values: Iterable[Any]) -> None:
        new = [value for value in values if self.last.get(value.tag, -1) < step]
        if new:
            with self.path.open("ab") as file:
                file.write(_framed(new_event(step, new)))
            self.last.update((value.tag, step) for value in new)

    def _rewritten(self, limits: Mapping[str, int]) -> Path:
        """A new file with what is in the folder, up to the limits."""
        old = sorted(self.folder.glob(PATTERN))
        kept: list[Any] = []
        self.last = {}
        for event in (event for path in old for event in read_events(path)):
            new = [
                value
                for value in event.summary.value
                if self.last.get(value.tag, -1) < event.step <= limits.get(value.tag, event.step)
            ]
            self.last.update((value.tag, event.step) for value in new)
            if new:
                del event.summary.value[:]
                event.summary.value.extend(new)
                kept.append(event)
        self.files += 1
        path = self.folder / f"events.out.tfevents.{int(time.time()):010d}.{self.runner}.{self.files}"
        write_events(path, kept)
        for leftover in (*old, *self.folder.glob(".*.part")):
            leftover.unlink(missing_ok=True)
        return path
