"""Results as tidy rows, one per evaluated episode; docs/reference/results-format.md defines each column.

The columns are a promise: within a format no column is renamed, removed or redefined, and new ones come last.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reaper.errors import UserError
from reaper.results import metrics
from reaper.results.runs import RunResult

FORMAT = 2
COLUMNS = (
    "condition", "sequence", "fraction", "seed", "num_tasks", "after_task", "evaluation", "task", "agent_steps",
    "episode", "score", "single_score", "random_score", "memory_bytes", "normalised_score",
)  # fmt: skip
# Values of `evaluation`: made during training, or of the agent at the end of a task's training.
PERIODIC, FINAL = "periodic", "final"

Row = dict[str, Any]


def all_rows(results: Sequence[RunResult], fraction: float) -> Iterator[Row]:
    """Every episode of every agent, then those of the references that normalise scores."""
    for result in results:
        yield from tidy_rows(result, fraction)
    yield from _reference_rows(results, fraction)


def tidy_rows(result: RunResult, fraction: float = 1.0) -> Iterator[Row]:
    """Of one run, task by task: the evaluations during training, then those of the resulting agent."""
    if not result.consolidates:
        return
    steps_before = 0
    for k, phase in enumerate(result.phases):
        progress = {"num_tasks": k + 1, "after_task": phase.task}
        for row in phase.rows:
            values = {**progress, "evaluation": PERIODIC, "agent_steps": steps_before + row["agent_steps"]}
            yield from _episode_rows(result, fraction, row["task"], row["scores"], **values)
        steps_before += phase.agent_steps
        values = {
            **progress,
            "evaluation": FINAL,
            "agent_steps": steps_before,
            "memory_bytes": result.memory_bytes[k],
        }
        for task, scores in zip(result.tasks, result.scores[k], strict=True):
            if not np.isnan(scores).any():
                yield from _episode_rows(result, fraction, task, scores.tolist(), **values)


def _episode_rows(
    result: RunResult, fraction: float, task: str, scores: Sequence[float], **values: Any
) -> Iterator[Row]:
    """One row per score; `values` holds the columns that all of them share."""
    column = result.tasks.index(task)
    common = {
        "condition": result.name,
        "sequence": result.sequence,
        "fraction": fraction,
        "seed": result.seed,
        "task": task,
        "single_score": _mean(result.single[column]),
        "random_score": _mean(result.random[column]),
        **values,
    }
    random, single = result.random[column].mean(), result.single[column].mean()
    for episode, score in enumerate(scores):
        share = float(metrics.normalised(score, random, single)) if result.defined[column] else None
        row = {**common, "episode": episode, "score": float(score), "normalised_score": share}
        yield {name: row.get(name) for name in COLUMNS}


def _mean(scores: np.ndarray) -> float | None:
    mean = float(scores.mean())
    return None if math.isnan(mean) else mean


def _reference_rows(results: Sequence[RunResult], fraction: float) -> Iterator[Row]:
    """`single`, one DQN per task, and `random`; each stage once, since runs of one seed share them."""
    seen = set()
    for result in results:
        for j, task in enumerate(result.tasks):
            steps = 0 if task in result.record.sources else result.settings.short_term.agent_steps
            single = {"condition": "single", "num_tasks": 1, "after_task": task, "agent_steps": steps}
            random = {"condition": "random", "num_tasks": 0, "after_task": "", "agent_steps": 0}
            for values, digest, scores in (
                (single, result.record.singles[j], result.single[j]),
                (random, result.record.random, result.random[j]),
            ):
                if (digest, task) not in seen and not np.isnan(scores).any():
                    seen.add((digest, task))
                    yield from _episode_rows(result, fraction, task, scores.tolist(), evaluation=FINAL, **values)


def as_csv(results: Sequence[RunResult], fraction: float) -> str:
    """The format's number is the first column, so that files can be concatenated; unknown values are empty."""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, ["format", *COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"format": FORMAT, **row} for row in all_rows(results, fraction))
    return text.getvalue()


def as_json(results: Sequence[RunResult], fraction: float) -> str:
    """One object with the format's number, the columns and the rows, one row per line; unknown values are null."""
    rows = ",\n".join(json.dumps(row) for row in all_rows(results, fraction))
    return f'{{"format": {FORMAT}, "columns": {json.dumps(COLUMNS)}, "rows": [\n{rows}\n]}}'


# -- reading files back

_FORMAT_1_NAMES = {"stage": "num_tasks", "moment": "evaluation", "observed_frames": "agent_steps"}
_FORMAT_1_VALUES = {"learning": PERIODIC, "learnt": FINAL}  # of `evaluation`
_ADDED = ("normalised_score",)  # columns that files of earlier versions do not have
_WHOLE = ("seed", "num_tasks", "agent_steps", "episode", "memory_bytes")
_REAL = ("fraction", "score", "single_score", "random_score", "normalised_score")


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a results file, CSV or JSON, of any released format, with the columns of this one."""
    path = Path(path)
    try:
        text = path.read_text()
        if path.suffix == ".json":
            document = json.loads(text)
            return [_upgraded(row, document["format"]) for row in document["rows"]]
        return [_typed(_upgraded(row, int(row.pop("format")))) for row in csv.DictReader(io.StringIO(text))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a results file of reaper ({error!r})") from None


def _upgraded(row: Row, written: int) -> Row:
    if written not in (1, FORMAT):
        raise ValueError(f"format {written}")
    if written == 1:
        row = {_FORMAT_1_NAMES.get(name, name): value for name, value in row.items()}
        row["evaluation"] = _FORMAT_1_VALUES[row["evaluation"]]
    row = {**dict.fromkeys(_ADDED, None), **row}
    return {name: row[name] for name in COLUMNS}


def _typed(row: Row) -> Row:
    """The values of a CSV row as numbers; empty ones, except the name of no task, are None."""
    numbers = {**dict.fromkeys(_WHOLE, int), **dict.fromkeys(_REAL, float)}

    def typed(name: str, value: str) -> Any:
        if name not in numbers:
            return value
        return numbers[name](value) if value else None

    return {name: typed(name, value) for name, value in row.items()}
