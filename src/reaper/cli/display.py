"""Showing a study while it runs: bars in a terminal, one JSON object a line anywhere else."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn

from reaper.engines.local import Listener
from reaper.progress import CURVES, Event, Rate
from reaper.study.stages import Stage

SECONDS_BETWEEN_LINES = 10.0


def _describe(event: Event, rate: float, left: float | None) -> str:
    parts = [event["phase"], f"{rate:,.0f} {event['unit']}/s"]
    if left is not None:
        minutes, seconds = divmod(max(0, int(left)), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    if event["score"] is not None:
        parts.append(f"score {event['score']:.1f}")
    return " · ".join(parts)


class Lines:
    """Machine-readable progress: an object when a stage starts and finishes, and now and then between."""

    def __init__(self, total: int, file: TextIO) -> None:
        self.total, self.file, self.finished = total, file, 0
        self.rates: dict[str, Rate] = {}
        self.last: dict[str, float] = {}

    def __call__(self, stage: Stage, event: Event) -> None:
        kind = event.get("event", "progress")
        if kind in CURVES:
            return
        if kind == "held" and self.last.get(stage.digest) == -1.0:
            return  # said once
        if kind == "held":
            self.last[stage.digest] = -1.0
        if kind in ("finished", "kept"):
            self.finished += 1
        if kind == "progress":
            rate, left = self.rates.setdefault(stage.digest, Rate()).read(event)
            if time.monotonic() - self.last.get(stage.digest, 0.0) < SECONDS_BETWEEN_LINES:
                return
            self.last[stage.digest] = time.monotonic()
            event = {**event, "per_second": round(rate, 1), "seconds_left": None if left is None else round(left, 1)}
        line = {"event": kind, "stage": stage.title, "digest": stage.digest}
        count = {"stages_finished": self.finished, "stages": self.total}
        print(json.dumps({**line, **count, **event}), file=self.file, flush=True)


class Bars:
    """A bar for every running stage and one for the whole study."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.progress, self.total, self.finished = progress, total, 0
        self.whole = progress.add_task("all stages", total=total, note="")
        self.bars: dict[str, TaskID] = {}
        self.rates: dict[str, Rate] = {}

    def __call__(self, stage: Stage, event: Event) -> None:
        kind = event.get("event", "progress")
        if kind == "started":
            self.bars[stage.digest] = self.progress.add_task(stage.title, total=None, note="")
        elif kind == "progress":
            note = _describe(event, *self.rates.setdefault(stage.digest, Rate()).read(event))
            self.progress.update(self.bars[stage.digest], completed=event["done"], total=event["total"], note=note)
        elif kind == "remark":
            self.progress.console.print(f"note: {stage.title}: {event['text']}", highlight=False)
        elif kind in ("held", "failed", "stopped"):  # held: by another process that shares the folder
            self._remove(stage)
            if event.get("others_go_on"):
                text = f"failed: {stage.title}: {event['error']}; what does not depend on it goes on"
                self.progress.console.print(text, highlight=False)
        elif kind in ("finished", "kept"):
            self._remove(stage)
            self.finished += 1
            self.progress.update(self.whole, completed=self.finished, note=f"{self.finished} of {self.total} stages")

    def _remove(self, stage: Stage) -> None:
        if bar := self.bars.pop(stage.digest, None):
            self.progress.remove_task(bar)


@contextmanager
def showing(total: int, console: Console, quiet: bool = False) -> Iterator[Listener]:
    """A listener that shows `total` stages in whatever way fits where the output goes."""
    if quiet:
        yield lambda stage, event: None
    elif not console.is_terminal:
        yield Lines(total, sys.stderr)
    else:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield Bars(total, progress)
