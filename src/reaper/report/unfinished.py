"""Stages of a run that were started and are not finished, and why."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reaper.results.runs import RunResult
from reaper.storage.store import Store

ENDED = ("failed", "stopped", "lost")  # states of a heartbeat (OUT/live) whose stage no process runs any more
FAILED = ("failed", "lost")
LONGEST_ERROR = 200  # characters
_PATH = re.compile(r"(?:[A-Za-z]:\\|(?<![\w./])/)[^\s:;,'\")]+")


@dataclass(frozen=True)
class UnfinishedStage:
    """A stage that was started and is not finished."""

    title: str
    state: str  # failed, stopped, lost, running or started
    error: str = ""

    def __str__(self) -> str:
        title = self.title[:1].upper() + self.title[1:]
        return f"{title} {self.state}{f': {self.error}' if self.error else ''}"


def without_paths(text: str) -> str:
    """One line that can be published: it reveals no file paths of the machine."""
    return _PATH.sub("(path)", " ".join(text.split()))[:LONGEST_ERROR]


def find_unfinished(store: Store, runs: Iterable[RunResult]) -> list[UnfinishedStage]:
    """The unfinished stages of these runs, each once."""
    stages = {digest: stage for run in runs for digest, stage in run.record.stages.items() if not store.has(digest)}
    checkpointed = set(store.unfinished_stages())
    found = []
    for digest, stage in stages.items():
        state, error = _heartbeat(store, digest)
        if state or digest in checkpointed:
            error = without_paths(error) if state in ENDED else ""
            found.append(UnfinishedStage(stage.title, state or "started", error))
    return found


def _heartbeat(store: Store, digest: str) -> tuple[str, str]:
    """A stage's last reported state and error; empty where there is no readable heartbeat."""
    try:
        record = json.loads((store.folder / "live" / f"{digest}.json").read_bytes())
        return str(record["state"]), str(record.get("error") or "")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "", ""


def describe(stages: Iterable[UnfinishedStage]) -> list[str]:
    """One sentence per failed stage; the others are counted by state."""
    stages = list(stages)
    failed = [str(stage) for stage in stages if stage.state in FAILED]
    counts = Counter(stage.state for stage in stages if stage.state not in FAILED)
    others = [f"{count} stage{'s' if count > 1 else ''} not finished ({state})" for state, count in counts.items()]
    return [f"{text.rstrip('.')}." for text in (*failed, *others)]
