"""Signs of life: OUT/live/DIGEST.json says of each stage that is not finished how far it is, or why it ended.

Whoever runs a stage writes its file anew every two seconds, whether there is news or not, so that silence means that
the process is gone and not that its stage is busy with a long test. The file goes when the stage is finished.
No result depends on these files: they are not synced, not sealed and not exported.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reaper.progress import Event, Rate
from reaper.storage.store import Store
from reaper.study.stages import Stage

SECONDS_BETWEEN_BEATS = 2.0
LOST = "its process ended without a word: it was killed, or its machine went down"


@dataclass
class Pulse:
    """What is known of one running stage."""

    title: str
    kind: str
    earlier_error: str | None  # why it failed in an earlier try
    latest: Event = field(default_factory=dict)
    rate: Rate = field(default_factory=Rate)
    per_second: float = 0.0
    seconds_left: float | None = None
    heard: float = 0.0  # when it last told of progress, by a clock of this process

    def hear(self, event: Event) -> None:
        self.per_second, self.seconds_left = self.rate.read(event)
        self.latest, self.heard = event, time.monotonic()

    def record(self) -> dict[str, Any]:
        known = {"title": self.title, "kind": self.kind, "earlier_error": self.earlier_error, **self.latest}
        known["per_second"] = round(self.per_second, 2)
        known["seconds_left"] = None if self.seconds_left is None else round(self.seconds_left, 1)
        known["seconds_since_progress"] = round(time.monotonic() - self.heard, 1)
        return known


def read_live(path: Path) -> dict[str, Any] | None:
    """What a file says; None if it is gone. Raises ValueError if it is not what a runner writes."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        raise ValueError("cannot be read as JSON") from None
    if not isinstance(record, dict) or record.get("digest") != path.stem or not isinstance(record.get("state"), str):
        raise ValueError("is not what a runner writes")
    return record


class Pulses:
    """The signs of life of one runner. A listener of its stages; nothing the disk does to it stops them."""

    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self.store, self.folder, self.warn = store, store.folder / "live", warn
        self.runner = secrets.token_hex(4)  # tells runners apart without naming machines
        self.running: dict[str, Pulse] = {}
        self.ended: set[str] = set()  # late words of these are not taken for signs of life
        self.beats, self.trouble = 0, ""
        self.lock, self.over = threading.Lock(), threading.Event()

    def __call__(self, stage: Stage, event: Event) -> None:
        kind, digest = event.get("event", "progress"), stage.digest
        with self.lock:
            if kind == "progress":
                self._hear(stage, event)
            elif kind == "started":
                self.ended.discard(digest)  # nothing is written yet: another process may turn out to hold it
            elif kind in ("failed", "stopped"):
                pulse = self.running.pop(digest, None) or self._new(stage)
                self.ended.add(digest)
                self._write(digest, {**pulse.record(), **event, "state": kind})
            elif kind in ("finished", "kept", "held"):
                self.running.pop(digest, None)
                self.ended.add(digest)
                if kind != "held":
                    self._remove(digest)
        self._complain()

    def _hear(self, stage: Stage, event: Event) -> None:
        if stage.digest in self.ended:
            return
        if known := self.running.get(stage.digest):
            known.hear(event)
            return
        pulse = self.running[stage.digest] = self._new(stage)
        pulse.hear(event)
        self._write(stage.digest, {**pulse.record(), "state": "running"})

    def _new(self, stage: Stage) -> Pulse:
        found: dict[str, Any] = {}
        with suppress(ValueError):
            found = read_live(self.folder / f"{stage.digest}.json") or {}
        failed = found.get("state") == "failed"
        return Pulse(stage.title, stage.kind, found.get("error") if failed else found.get("earlier_error"))

    def beat(self) -> None:
        """Says of every running stage that its process is alive."""
        with self.lock:
            self.beats += 1
            for digest, pulse in self.running.items():
                self._write(digest, {**pulse.record(), "state": "running"})

    def beat_until_over(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_BEATS):
            self.beat()

    def mark_lost(self) -> None:
        """Nobody else is at work here, so whatever is said to be running was left by a process that is gone."""
        for path in self.folder.glob("*.json"):
            if self.store.has(path.stem):
                self._remove(path.stem)
                continue
            with suppress(ValueError):
                record = read_live(path)
                if record and record["state"] == "running":
                    self._write(path.stem, {**record, "state": "lost", "error": LOST})

    def _write(self, digest: str, record: dict[str, Any]) -> None:
        about = {"digest": digest, "runner": self.runner, "beat": self.beats, "written": round(time.time(), 3)}
        part = self.folder / f".{digest}.{self.runner}.part"
        record = {name: value for name, value in record.items() if name != "event"}
        try:
            self.folder.mkdir(exist_ok=True)  # and not its parents: an output folder that is gone stays gone
            part.write_text(json.dumps({**record, **about}))
            os.replace(part, self.folder / f"{digest}.json")
        except OSError as error:
            self.trouble = (
                self.trouble or f"cannot write {self.folder}: {error.strerror}; `reaper watch` will not see it"
            )

    def _remove(self, digest: str) -> None:
        with suppress(OSError):
            (self.folder / f"{digest}.json").unlink(missing_ok=True)

    def _complain(self) -> None:
        """Once, and from the thread of the listener."""
        if self.trouble and self.trouble != "said":
            text, self.trouble = self.trouble, "said"
            self.warn(text)

    def close(self, error: BaseException | None) -> None:
        """The runner ends: with it every stage that still runs."""
        with self.lock:
            for digest, pulse in self.running.items():
                said = {"error": "its run ended" if error is None else " ".join(str(error).split())[:300]}
                self._write(digest, {**pulse.record(), **said, "state": "stopped"})
            self.running.clear()


@contextmanager
def beating(store: Store, warn: Callable[[str], None]) -> Iterator[Pulses]:
    """Signs of life for as long as a study runs."""
    pulses = Pulses(store, warn)
    if not store.shared:
        pulses.mark_lost()
    thread = threading.Thread(target=pulses.beat_until_over, name="signs of life", daemon=True)
    thread.start()
    error: BaseException | None = None
    try:
        yield pulses
    except BaseException as caught:
        error = caught
        raise
    finally:
        pulses.over.set()
        thread.join(SECONDS_BETWEEN_BEATS)
        pulses.close(error)
