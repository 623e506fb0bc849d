"""Progress as lines of text for people, where there is no terminal: a log file, a batch job, a notebook, CI."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from reaper.monitoring.time_left import StageTime, time_left
from reaper.monitoring.watch import duration, printable
from reaper.progress import (
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

SECONDS_BETWEEN_LINES = 30.0  # about the progress of one stage
STAGES_AT_THAT_RATE = 4  # with more running, each is reported less often, so that a log does not grow with the workers


class PlainLog:
    """A line at the start and end of each stage, and every 30 seconds in between:

    2026-07-02 14:03:37 stage 3 of 9, learn dodge (seed 0): learn Dodge 52%, score -2.0, 421 agent steps/s, 1 min left
    """

    def __init__(self, stages: Iterable[Stage], file: TextIO) -> None:
        self._stages, self._file = {stage.digest: stage for stage in stages}, file
        self._numbers: dict[str, int] = {}  # digest -> "stage n", in the order in which stages start or are found
        self._running: dict[str, Rate] = {}
        self._seconds_left: dict[str, float | None] = {}  # of running stages
        self._seconds: dict[str, float | None] = {}  # of finished stages; None: not known
        self._scores: dict[str, float] = {}
        self._printed: dict[str, float] = {}  # when there was last a line about a stage
        self._held: set[str] = set()  # an engine retries a held stage every second; it is reported once
        self._cached = 0  # stages found finished, not yet reported

    def __call__(self, stage: Stage, event: Event) -> None:
        if isinstance(event, StageCached):
            self._number(stage)
            self._seconds[stage.digest] = None
            self._cached += 1
            return
        self.report_cached()
        match event:
            case StageStarted():
                self._start(stage, event)
            case PhaseProgress():
                self._progress(stage, event)
            case StageFinished():
                self._end(stage)
                self._seconds[stage.digest] = event.seconds
                score = self._scores.get(stage.digest)
                last = "" if score is None else f", last score {score:.1f}"
                done = f"{len(self._seconds)} of {len(self._stages)} stages are finished"
                self._print(stage, f"finished in {duration(event.seconds)}{last}; {done}")
            case StageHeld():
                self._end(stage)
                if stage.digest not in self._held:
                    self._print(stage, "another process is working on it")
                self._held.add(stage.digest)
            case StageStopped():
                self._end(stage)
                self._print(stage, "stopped; its state is saved")
            case StageFailed():
                self._end(stage)
                if event.others_continue:  # else this error ends the command, which prints it
                    self._print(stage, f"failed: {event.error}; stages that do not depend on it continue")
            case Remark():
                self._print(stage, f"note: {event.text}")

    def report_cached(self) -> None:
        """One line about all stages that were found finished since the last line."""
        if self._cached:
            total = len(self._stages)
            self._write(f"{self._cached} of {total} stages were finished before; {total - len(self._seconds)} are left")
        self._cached = 0

    def _number(self, stage: Stage) -> int:
        return self._numbers.setdefault(stage.digest, len(self._numbers) + 1)

    def _start(self, stage: Stage, event: StageStarted) -> None:
        self._running[stage.digest] = Rate()
        self._printed[stage.digest] = time.monotonic()
        if stage.digest not in self._held:  # else this is one more look at it; if it is free now, progress follows
            self._print(stage, f"started{f' on {event.host}' if event.host else ''}{self._whole_study()}")

    def _progress(self, stage: Stage, event: PhaseProgress) -> None:
        per_second, left = self._running.setdefault(stage.digest, Rate()).update(event)
        self._seconds_left[stage.digest] = left
        if event.score is not None:
            self._scores[stage.digest] = event.score
        now, interval = time.monotonic(), SECONDS_BETWEEN_LINES * max(1.0, len(self._running) / STAGES_AT_THAT_RATE)
        if now - self._printed.setdefault(stage.digest, now) < interval:
            return
        self._printed[stage.digest] = now
        parts = [f"{event.phase} {event.done / event.total:.0%}" if event.total else event.phase]
        if (score := self._scores.get(stage.digest)) is not None:
            parts.append(f"score {score:.1f}")
        parts.append(f"{per_second:,.0f} {event.unit}/s")
        if left is not None:
            parts.append(f"{duration(max(0.0, left))} left")
        self._print(stage, ", ".join(parts) + self._whole_study())

    def _whole_study(self) -> str:
        """The time that the whole study has left, once stages like the unfinished ones have finished."""
        seconds, at_least = time_left(map(self._stage_time, self._stages.values()))
        if seconds is None or seconds < 1:
            return ""
        return f"; whole study: {'at least' if at_least else 'about'} {duration(seconds)} left"

    def _stage_time(self, stage: Stage) -> StageTime:
        return StageTime(
            kind=(stage.kind, "memory" in stage.parents),  # the first memory takes less time than later ones
            running=stage.digest in self._running,
            done=stage.digest in self._seconds,
            seconds=self._seconds.get(stage.digest),
            seconds_left=self._seconds_left.get(stage.digest),
        )

    def _end(self, stage: Stage) -> None:
        for of_stage in (self._running, self._seconds_left, self._printed):
            of_stage.pop(stage.digest, None)

    def _print(self, stage: Stage, text: str) -> None:
        self._write(f"stage {self._number(stage)} of {len(self._stages)}, {stage.title}: {text}")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # training does not end because nobody reads the log any more
            print(time.strftime("%Y-%m-%d %H:%M:%S"), printable(text), file=self._file, flush=True)
