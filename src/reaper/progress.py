"""How a stage tells the world how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Event = dict[str, Any]
CURVES = ("curves", "measured")  # events that are points of curves, for those who draw them


class Progress:
    """Counts the work of one stage and passes on an event now and then."""

    def __init__(self, send: Callable[[Event], None] | None = None, seconds_between: float = 0.25) -> None:
        self._send, self._between = send, seconds_between
        self._last = 0.0
        self.phase, self.unit, self.total, self.done = "", "frames", 0, 0
        self.score: float | None = None
        self._timed = (time.monotonic(), 0)

    def begin(self, phase: str, total: int, unit: str = "frames", done: int = 0, curves: Sequence[str] = ()) -> None:
        """Starts a phase of `total` units of work, of which a resumed stage has some behind it. `curves` are those that
        the phase draws: what they had beyond `done` was lost with the process that drew it, and is drawn again."""
        self.phase, self.unit, self.total, self.done, self.score = phase, unit, total, done, None
        self._timed = (time.monotonic(), done)
        self._emit()
        if curves and self._send:
            self._send({"event": "curves", "curves": list(curves), "step": done})

    def advance(self, amount: int, score: float | None = None) -> None:
        self.done += amount
        if score is not None:
            self.score = score
        if time.monotonic() - self._last >= self._between:
            self._emit()

    @contextmanager
    def aside(self, phase: str, total: int, unit: str) -> Iterator[None]:
        """A phase within the phase, which then goes on where it was."""
        outer, timed = (self.phase, self.unit, self.total, self.done, self.score), self._timed
        self.begin(phase, total, unit)
        try:
            yield
        finally:
            (self.phase, self.unit, self.total, self.done, self.score), self._timed = outer, timed
            self._emit()

    def per_second(self, step: int) -> float:
        """Work a second since the last call, or since the phase began."""
        (then, before), now = self._timed, time.monotonic()
        self._timed = (now, step)
        return (step - before) / max(now - then, 1e-9)

    def measure(self, curve: str, step: int, values: Mapping[str, float | None]) -> None:
        """Points of curves, after so much work of the phase."""
        if self._send:
            told = {f"{curve}/{name}": float(value) for name, value in values.items() if value is not None}
            self._send({"event": "measured", "step": step, "values": told})

    def _emit(self) -> None:
        self._last = time.monotonic()
        if self._send:
            self._send(
                {"phase": self.phase, "unit": self.unit, "done": self.done, "total": self.total, "score": self.score}
            )

    def remark(self, text: str) -> None:
        """Something the user should know, once."""
        if self._send:
            self._send({"event": "remark", "text": text})


class Rate:
    """Work per second and time left of each phase of a stage, as seen by whoever is told."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[float, int]] = {}  # phase -> when it was first heard of, and how far it was
        self.last: dict[str, int] = {}

    def read(self, event: Event) -> tuple[float, float | None]:
        phase, done, now = event["phase"], event["done"], time.monotonic()
        if done < self.last.get(phase, done + 1):  # new, or begun again, or taken up again elsewhere
            self.begun[phase] = (now, done)
        self.last[phase] = done
        started, first = self.begun[phase]  # since this process began: a resumed stage has more behind it
        rate = (done - first) / max(now - started, 1e-9)
        return rate, (event["total"] - done) / rate if done > first else None
