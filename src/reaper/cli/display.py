"""The progress of a study: bars in a terminal, lines of text anywhere else, JSON for programs on request."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn

from reaper.cli.plain_log import PlainLog
from reaper.engines.base import Listener
from reaper.progress import (
    CurvePoints,
    CurvesRestarted,
    Event,
    PhaseProgress,
    Rate,
    Remark,
    StageCached,
    StageFailed,
    StageFinished,
    StageHeld,
    StageStarted,
    StageStopped,
)
from reaper.study.kinds.base import Stage

SECONDS_BETWEEN_LINES = 10.0


def _describe(event: PhaseProgress, per_second: float, seconds_left: float | None) -> str:
    parts = [event.phase, f"{per_second:,.0f} {event.unit}/s"]
    if seconds_left is not None:
        minutes, seconds = divmod(max(0, int(seconds_left)), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    if event.score is not None:
        parts.append(f"score {event.score:.1f}")
    return " · ".join(parts)


class JsonLines:
    """Machine-readable progress: one object per event of a stage, with progress itself at most every ten seconds."""

    def __init__(self, total: int, file: TextIO) -> None:
        self._total, self._file, self._finished = total, file, 0
        self._rates: dict[str, Rate] = {}
        self._last_progress: dict[str, float] = {}
        self._held: set[str] = set()  # an engine retries a held stage every second; it is reported once

    def __call__(self, stage: Stage, event: Event) -> None:
        if isinstance(event, StageHeld):
            if stage.digest not in self._held:
                self._write(stage, event)
            self._held.add(stage.digest)
        elif isinstance(event, PhaseProgress):
            self._progress(stage, event)
        elif not isinstance(event, CurvePoints | CurvesRestarted):
            self._finished += isinstance(event, StageFinished | StageCached)
            self._write(stage, event)

    def _progress(self, stage: Stage, event: PhaseProgress) -> None:
        per_second, left = self._rates.setdefault(stage.digest, Rate()).update(event)
        now = time.monotonic()
        if now - self._last_progress.get(stage.digest, 0.0) >= SECONDS_BETWEEN_LINES:
            self._last_progress[stage.digest] = now
            seconds_left = None if left is None else round(left, 1)
            self._write(stage, event, per_second=round(per_second, 1), seconds_left=seconds_left)

    def _write(self, stage: Stage, event: Event, **extra: float | None) -> None:
        line = {"event": event.name, "stage": stage.title, "digest": stage.digest}
        count = {"stages_finished": self._finished, "stages": self._total}
        with suppress(OSError):  # training does not end because nobody reads the events any more
            print(json.dumps({**line, **count, **event.to_json(), **extra}), file=self._file, flush=True)


class Bars:
    """One progress bar per running stage and one for the whole study."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._progress, self._total, self._finished = progress, total, 0
        self._study_bar = progress.add_task("all stages", total=total, note="")
        self._bars: dict[str, TaskID] = {}
        self._rates: dict[str, Rate] = {}

    def __call__(self, stage: Stage, event: Event) -> None:
        match event:
            case StageStarted():
                self._bars[stage.digest] = self._progress.add_task(stage.title, total=None, note="")
            case PhaseProgress():
                note = _describe(event, *self._rates.setdefault(stage.digest, Rate()).update(event))
                bar = self._bars[stage.digest]
                self._progress.update(bar, completed=event.done, total=event.total, note=note)
            case Remark():
                self._print(f"note: {stage.title}: {event.text}")
            case StageHeld() | StageStopped():
                self._remove(stage)
            case StageFailed():
                self._remove(stage)
                if event.others_continue:
                    self._print(f"failed: {stage.title}: {event.error}; stages that do not depend on it continue")
            case StageFinished() | StageCached():
                self._remove(stage)
                self._finished += 1
                note = f"{self._finished} of {self._total} stages"
                self._progress.update(self._study_bar, completed=self._finished, note=note)

    def _print(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False)

    def _remove(self, stage: Stage) -> None:
        if bar := self._bars.pop(stage.digest, None):
            self._progress.remove_task(bar)


@contextmanager
def show_progress(stages: Sequence[Stage], log: str = "auto", quiet: bool = False) -> Iterator[Listener]:
    """Yields a listener that shows the progress of these stages on standard error; `log` is one of options.LOGS."""
    console = Console(stderr=True, force_terminal=True if log == "bars" else None)
    if log == "auto":
        log = "bars" if console.is_terminal and not console.is_dumb_terminal else "plain"
    if quiet:
        yield lambda stage, event: None
    elif log == "json":
        yield JsonLines(len(stages), sys.stderr)
    elif log == "plain":
        lines = PlainLog(stages, sys.stderr)
        try:
            yield lines
        finally:
            lines.report_cached()
    else:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield Bars(len(stages), progress)
