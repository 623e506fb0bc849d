"""What was run, when, with what and at what cost: the document next to a summary of results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.results import summary
from reaper.results.runs import stages_of
from reaper.storage.files import atomic_write
from reaper.storage.records import ExperimentRecord, RunRecord
from reaper.storage.store import Store

FORMAT = 1
RUNS = "run"  # in place of an experiment's name, for conditions that `reaper run` ran


@dataclass(frozen=True, kw_only=True)
class Study:
    """One experiment, or the conditions of `reaper run`, on one sequence with one seed."""

    experiment: str
    sequence: str
    seed: int
    command: str
    conditions: tuple[str, ...]
    finished: str  # date of its last stage, empty if none has finished
    stages: int
    missing: int  # of them, still to run
    seconds: float  # of its own stages; experiments in one folder share some of them


@dataclass(frozen=True, kw_only=True)
class Source:
    """One output folder: its settings, its machines and its studies."""

    name: str  # of its files
    preset: str
    fraction: float
    overrides: dict[str, Any]  # settings that the user gave
    commit: str  # of the code, as far as it is known
    seconds: float  # of all stages
    titles: dict[str, str]  # task -> title
    versions: list[str] = field(default_factory=list)  # of reaper, when the stages ran
    torch: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    studies: tuple[Study, ...] = ()
    averaged: bool = False  # rows are over all seeds of the studies, and have AVERAGED in place of a seed
    note: str = ""  # what a reader should know, for a source that was not written from a folder


def describe(store: Store, name: str, commit: str) -> Source:
    """The description of an output folder."""
    records = {record.name: record for record in store.runs()}
    made = [store.stage(digest).provenance() for digest in store.stages()]
    return Source(
        name=name,
        preset=store.header.preset,
        fraction=store.header.fraction,
        overrides=dict(store.header.user_values or {}),
        commit=commit,
        seconds=round(sum(row.seconds for row in made), 1),
        titles={task: title for r in records.values() for task, title in zip(r.tasks, r.titles, strict=True)},
        versions=_distinct(row.version for row in made),
        torch=_distinct(row.torch for row in made),
        devices=_distinct(f"{row.device}, {row.processor}" for row in made),
        studies=tuple(_studies(store, records)),
    )


def _studies(store: Store, records: dict[str, RunRecord]) -> Iterable[Study]:
    experiments = store.experiments()
    for record in experiments:
        runs = [records[name] for name in record.runs if name in records]
        yield _study(store, record, runs)
    covered = {name for record in experiments for name in record.runs}
    groups: dict[tuple[str, int], list[RunRecord]] = {}
    for record in records.values():
        if record.name not in covered:
            groups.setdefault((record.sequence, record.seed), []).append(record)
    for runs in groups.values():
        yield _study(store, None, runs)


def _study(store: Store, experiment: ExperimentRecord | None, runs: list[RunRecord]) -> Study:
    digests = {digest for run in runs for digest in stages_of(run)}
    digests |= {stage.digest for stage in experiment.stages} if experiment else set()
    made = [store.stage(digest).provenance() for digest in digests if store.has(digest)]
    where = experiment or runs[0]
    commands = [experiment.command] if experiment else _distinct(run.command for run in runs)
    return Study(
        experiment=experiment.experiment if experiment else RUNS,
        sequence=where.sequence,
        seed=where.seed,
        command="\n".join(commands),
        conditions=tuple(run.condition_name for run in runs),
        finished=max((row.finished for row in made), default="")[:10],
        stages=len(digests),
        missing=len(digests) - len(made),
        seconds=round(sum(row.seconds for row in made), 1),
    )


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


# -- files


def source_files(store: Store, name: str, commit: str) -> dict[str, str]:
    """The contents of NAME.csv, the rows, and NAME.json, what they are of."""
    about = {"format": FORMAT, **asdict(describe(store, name, commit))}
    rows = summary.as_csv(summary.summary_rows(store))
    return {f"{name}.csv": rows, f"{name}.json": json.dumps(about, indent=1) + "\n"}


def write_sources(folder: Path, files: Mapping[str, str]) -> None:
    """Adds them to a folder, which is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        atomic_write(folder / name, text.encode())


def read_sources(folder: Path) -> list[tuple[Source, list[summary.Row]]]:
    """Every source of a folder with its rows, by name."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder")
    return [(_read(path), summary.read_csv(path)) for path in sorted(folder.glob("*.csv"))]


def _read(path: Path) -> Source:
    about = path.with_suffix(".json")
    try:
        value: dict[str, Any] = json.loads(about.read_text())
        if value.pop("format") != FORMAT:
            raise ValueError("format")
        studies = tuple(Study(**{**row, "conditions": tuple(row["conditions"])}) for row in value.pop("studies"))
        return Source(**value, studies=studies)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{about} does not describe {path.name} ({error!r})") from None
