"""The queue of a campaign: which studies are to be run, what each is expected to cost, and which are done.

docs/results/data/queue.json lists them, the most important first. Whether one is done, and what it cost, is read from
summaries of results and from output folders, never typed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.results.studies import RUNS, Source

FILE = "queue.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A study with all its seeds."""

    study: str  # an experiment's name, or `run`
    sequence: str
    preset: str
    fraction: float
    seeds: tuple[int, ...]
    command: str  # without the seeds
    machine: str  # what the prediction is for
    minutes: float  # predicted, for one seed
    basis: str  # where the prediction comes from
    conditions: tuple[str, ...] = ()  # of `run`
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings that the command gives

    def command_for(self, seeds: Sequence[int]) -> str:
        return f"{self.command} --seeds {' '.join(map(str, seeds))}"


@dataclass(frozen=True)
class Progress:
    """How far an entry is."""

    entry: Entry
    finished: dict[int, float]  # seed -> minutes that its stages took

    @property
    def left(self) -> list[int]:
        return [seed for seed in self.entry.seeds if seed not in self.finished]

    @property
    def minutes_left(self) -> float:
        """Predicted by what a finished seed took, where there is one."""
        known = list(self.finished.values())
        return len(self.left) * (sum(known) / len(known) if known else self.entry.minutes)


def read_queue(folder: Path) -> list[Entry]:
    """The entries of a folder's queue; none where it has no queue."""
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        value = json.loads(path.read_text())
        if value["format"] != FORMAT:
            raise ValueError(f"format {value['format']}")
        return [_entry(entry) for entry in value["entries"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a queue ({error!r})") from None


def _entry(value: dict[str, Any]) -> Entry:
    lists = {name: tuple(value[name]) for name in ("seeds", "conditions") if name in value}
    return Entry(**{**value, **lists})


def progress(entries: Iterable[Entry], sources: Sequence[Source]) -> list[Progress]:
    """Each entry with its finished seeds."""
    return [Progress(entry, _finished(entry, sources)) for entry in entries]


def _finished(entry: Entry, sources: Sequence[Source]) -> dict[int, float]:
    found: dict[int, float] = {}
    for source in sources:
        settings = (source.preset, source.fraction, _texts(source.overrides))
        if settings != (entry.preset, entry.fraction, _texts(entry.overrides)):
            continue
        for study in source.studies:
            same = (study.experiment, study.sequence) == (entry.study, entry.sequence)
            whole = not study.missing and (entry.study != RUNS or set(entry.conditions) <= set(study.conditions))
            if same and whole and study.seed in entry.seeds:
                found.setdefault(study.seed, study.seconds / 60)
    return dict(sorted(found.items()))


def _texts(overrides: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in overrides.items()}
