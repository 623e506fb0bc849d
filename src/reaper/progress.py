"""How a stage tells the world how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class Progress:
    """Counts the work of one stage and passes on an event now and then."""

    def __init__(self, send: Callable[[Event], None] | None = None, seconds_between: float = 0.25) -> None:
        self._send, self._between = send, seconds_between
        self._last = 0.0
        self.phase, self.unit, self.total, self.done = "", "frames", 0, 0
        self.score: float | None = None

    def begin(self, phase: str, total: int, unit: str = "frames", done: int = 0) -> None:
        """Starts a phase of `total` units of work, of which a resumed stage has some behind it."""
        self.phase, self.unit, self.total, self.done, self.score = phase, unit, total, done, None
        self._emit()

    def advance(self, amount: int, score: float | None = None) -> None:
        self.done += amount
        if score is not None:
            self.score = score
        if time.monotonic() - self._last >= self._between:
            self._emit()

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
