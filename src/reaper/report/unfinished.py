"""Stages of a run that are not finished: which failed and why, which were begun, as far as the folder says."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reaper.results.runs import RunResult
from reaper.storage.store import Store

ENDED = ("failed", "stopped", "lost")  # what a sign of life (OUT/live) may say of a stage that nobody runs any more
LONGEST = 200  # characters of an error
_PATH = re.compile(r"(?:[A-Za-z]:\\|(?<![\w./])/)[^\s:;,'\")]+")


@dataclass(frozen=True)
class UnfinishedStage:
    """A stage that was begun and is not finished."""

    title: str
    state: str  # failed, stopped, lost, running or begun
    error: str = ""

    def __str__(self) -> str:
        title = self.title[:1].upper() + self.title[1:]
        return f"{title} {self.state}{f': {self.error}' if self.error else ''}"


def without_paths(text: str) -> str:
    """A line that may be shown anywhere: it does not say where on a machine anything lies."""
    return _PATH.sub("(path)", " ".join(text.split()))[:LONGEST]


def find_unfinished(store: Store, runs: Iterable[RunResult]) -> list[UnfinishedStage]:
    """Of every stage of these runs, once."""
    titles = {digest: title for run in runs for digest, title in _titles(run) if not store.has(digest)}
    begun = set(store.unfinished_stages())
    found = []
    for digest, title in titles.items():
        state, error = _sign_of_life(store, digest)
        if state or digest in begun:
            found.append(UnfinishedStage(title, state or "begun", without_paths(error) if state in ENDED else ""))
    return found


def _titles(run: RunResult) -> Iterable[tuple[str, str]]:
    """Digest and title of each stage."""
    return ((digest, stage.title) for digest, stage in run.record.stages.items())


def _sign_of_life(store: Store, digest: str) -> tuple[str, str]:
    """A stage's state and error; nothing where there is no file that says so."""
    try:
        record = json.loads((store.folder / "live" / f"{digest}.json").read_bytes())
        return str(record["state"]), str(record.get("error") or "")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "", ""


def describe(troubles: Iterable[UnfinishedStage]) -> list[str]:
    """Failures one by one; what was only interrupted, counted."""
    troubles = list(troubles)
    failed = [str(trouble) for trouble in troubles if trouble.state in ("failed", "lost")]
    counts = Counter(trouble.state for trouble in troubles if trouble.state not in ("failed", "lost"))
    others = [f"{count} stage{'s' if count > 1 else ''} not finished ({state})" for state, count in counts.items()]
    return [f"{text.rstrip('.')}." for text in (*failed, *others)]
