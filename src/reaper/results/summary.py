"""Results in short: one row per evaluation instead of one per episode, and what experiments add to that.

A whole study is some hundred kilobytes this way, small enough to be committed. docs/reference/results-format.md defines
each column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reaper.errors import UserError
from reaper.results import tidy
from reaper.results.runs import RunResult, read_results
from reaper.storage.store import Store
from reaper.study.analyses.grid import episode_range

FORMAT = 1
COLUMNS = (
    "sequence", "seed", "condition", "kind", "num_tasks", "after_task", "task", "agent_steps", "episodes", "mean",
    "std", "min", "max", "normalised", "memory_bytes",
)  # fmt: skip
# Values of `kind` besides the two of tidy rows: every evaluation of a task's teacher, a student, an overlap.
TEACHER, STUDENT, OVERLAP = "teacher", "student", "overlap"
AVERAGED = -1  # in place of a seed: rows over several seeds, copied from a page that does not tell them apart
DIGITS = 6  # significant ones of a number that is not whole

Row = dict[str, Any]
_WHOLE = ("seed", "num_tasks", "agent_steps", "episodes", "memory_bytes")
_REAL = ("mean", "std", "min", "max", "normalised")


def summary_rows(store: Store) -> list[Row]:
    """All that a store has finished."""
    results = read_results(store)
    rows = [*_evaluations(results, store.header.fraction), *_teachers(results), *_analyses(store, results)]
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def _evaluations(results: Sequence[RunResult], fraction: float) -> Iterator[Row]:
    """One row for the episodes of one agent on one task at one time."""
    groups: dict[tuple[Any, ...], list[tidy.Row]] = {}
    for row in tidy.all_rows(results, fraction):
        groups.setdefault(tuple(row[name] for name in (*_SHARED, "evaluation")), []).append(row)
    for key, rows in groups.items():
        shares = [row["normalised_score"] for row in rows]
        known = None not in shares
        common = {**dict(zip(_SHARED, key, strict=False)), "kind": key[-1]}
        normalised = float(np.mean(shares)) if known else None
        yield {**common, **_spread([row["score"] for row in rows]), "normalised": normalised}


_SHARED = ("sequence", "seed", "condition", "num_tasks", "after_task", "task", "agent_steps", "memory_bytes")


def _spread(scores: Sequence[float]) -> Row:
    values = np.asarray(scores, dtype=float)
    found = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return {"episodes": len(values), **{name: float(value) for name, value in found.items()}}


def _teachers(results: Sequence[RunResult]) -> Iterator[Row]:
    """The worst and the best episode among all evaluations of each teacher: grid searches are normalised by them."""
    seen = set()
    for result in results:
        for task, digest, rows in zip(result.tasks, result.record.teachers, result.teacher_rows, strict=False):
            key = (result.sequence, result.seed, digest)
            if rows and key not in seen:
                seen.add(key)
                worst, best = episode_range(rows)
                common = {"sequence": result.sequence, "seed": result.seed, "condition": TEACHER, "kind": TEACHER}
                count = sum(len(row["scores"]) for row in rows)
                yield {**common, "after_task": task, "task": task, "episodes": count, "min": worst, "max": best}


def _analyses(store: Store, results: Sequence[RunResult]) -> Iterator[Row]:
    """The stages that experiments add to the runs of their conditions."""
    runs = {result.record.name: result for result in results}
    for record in store.experiments():
        common = {"sequence": record.sequence, "seed": record.seed, "num_tasks": len(record.tasks)}
        own = [runs[name] for name in record.runs if name in runs]
        for stage in record.stages:
            if stage.role == "evaluation" and store.has(stage.digest) and own:
                yield from _student(store, stage.digest, {**common, "kind": STUDENT}, about=stage.about, run=own[0])
            if stage.role == OVERLAP and store.has(stage.digest):
                for row in store.stage(stage.digest).document("overlap"):
                    pair = {"condition": stage.about["condition"], "after_task": row["first"], "task": row["second"]}
                    yield {**common, "kind": OVERLAP, **pair, "mean": row["overlap"]}


def _student(
    store: Store, digest: str, common: Mapping[str, Any], *, about: Mapping[str, Any], run: RunResult
) -> Iterator[Row]:
    """A student's scores; normalised by its teacher, which is the last long-term agent if it learnt several tasks."""
    tasks = about["tasks"]
    for row in store.stage(digest).document("rows"):
        place = run.tasks.index(row["task"])
        teacher = run.single[place] if len(tasks) == 1 else run.scores[-1, place]
        spread, chance, level = _spread(row["scores"]), run.random[place].mean(), teacher.mean()
        share = (spread["mean"] - chance) / (level - chance) if level > chance else None
        where = {"condition": about["items"], "num_tasks": len(tasks), "after_task": "+".join(tasks)}
        yield {**common, **where, "task": row["task"], **spread, "normalised": share}


# -- files


def as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, ["format", *COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"format": FORMAT, **{name: _short(value) for name, value in row.items()}} for row in rows)
    return text.getvalue()


def _short(value: Any) -> Any:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


def read_csv(path: Path) -> list[Row]:
    """The rows of such a file."""
    try:
        reader = csv.DictReader(io.StringIO(path.read_text()))
        if reader.fieldnames != ["format", *COLUMNS]:
            raise ValueError("other columns")
        return [_typed(row) for row in reader]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path} is not a summary of results ({error!r})") from None


def _typed(row: Mapping[str, str]) -> Row:
    if int(row["format"]) != FORMAT:
        raise ValueError(f"format {row['format']}")
    kinds = {**dict.fromkeys(_WHOLE, int), **dict.fromkeys(_REAL, float)}
    found: Row = {name: row[name] for name in COLUMNS}
    return {name: (kinds[name](value) if value else None) if name in kinds else value for name, value in found.items()}
