"""How far an episode is while it is played: a status line in a terminal, lines of text anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
from rich.console import Console
from rich.status import Status

from reaper.monitoring.watch import printable

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.2  # of the status line


class EpisodeProgress:
    """Reports the progress of one episode on standard error."""

    def __init__(self, label: str, status: Status | None) -> None:
        self._label, self._status = label, status  # without a status line, lines of text
        self._interval = SECONDS_BETWEEN_UPDATES if status else SECONDS_BETWEEN_LINES
        self._last_shown = time.monotonic()

    def watch(self, episode: Iterable[tuple[np.ndarray, float]], then: str = "") -> Iterator[tuple[np.ndarray, float]]:
        """The same frames and scores; shows how many there were so far, and in the end what happens `then`."""
        start = time.monotonic()
        for agent_steps, (frame, score) in enumerate(episode):
            if (now := time.monotonic()) - self._last_shown >= self._interval:
                per_second = agent_steps / max(now - start, 1e-9)
                self.show(f"{agent_steps:,} agent steps, score {score:g}, {per_second:,.0f} agent steps/s")
            yield frame, score
        if then:
            self.show(then)

    def show(self, text: str) -> None:
        self._last_shown = time.monotonic()
        line = printable(f"{self._label}: {text}")
        if self._status:
            self._status.update(line)
            return
        with suppress(OSError):  # an episode does not end because nobody reads its progress any more
            print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=sys.stderr, flush=True)


@contextmanager
def show_episode(label: str) -> Iterator[EpisodeProgress]:
    """Shows the progress of one episode; in a terminal it is gone afterwards."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield EpisodeProgress(label, None)
        return
    with console.status(printable(label)) as status:
        yield EpisodeProgress(label, status)
