"""Results as tidy rows, one a game, for any other tool; docs/reference/results-format.md says what each column means.

The columns are a promise: within a format none is renamed, removed or given another meaning, and new ones come last.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from reaper.results.runs import RunResult

FORMAT = 1
COLUMNS = (
    "condition", "sequence", "fraction", "seed", "stage", "after_task", "moment", "task", "agent_steps",
    "episode", "score", "single_score", "random_score", "memory_bytes",
)  # fmt: skip
LEARNING, LEARNT = "learning", "learnt"  # moments: while a stage is learning, and the agent that it ends with

Row = dict[str, Any]


def all_rows(results: Sequence[RunResult], fraction: float) -> Iterator[Row]:
    """Every game of every agent, then those of the references that scores are normalised with."""
    for result in results:
        yield from tidy_rows(result, fraction)
    yield from _reference_rows(results, fraction)


def tidy_rows(result: RunResult, fraction: float = 1.0) -> Iterator[Row]:
    """Of one run: the games played while each task was being learnt, and those of the agent after it."""
    if not result.consolidates:
        return
    begun = 0
    for k, phase in enumerate(result.phases):
        stage = {"stage": k + 1, "after_task": phase.task}
        for row in phase.rows:
            now = {"moment": LEARNING, "agent_steps": begun + row["agent_steps"]}
            yield from _games(result, fraction, row["task"], row["scores"], **stage, **now)
        begun += phase.agent_steps
        for task, games in zip(result.tasks, result.scores[k], strict=True):
            if not np.isnan(games).any():
                end = {"moment": LEARNT, "agent_steps": begun, "memory_bytes": result.memory_bytes[k]}
                yield from _games(result, fraction, task, games.tolist(), **stage, **end)


def _games(result: RunResult, fraction: float, task: str, scores: Sequence[float], **values: Any) -> Iterator[Row]:
    place = result.tasks.index(task)
    common = {
        "condition": result.name,
        "sequence": result.sequence,
        "fraction": fraction,
        "seed": result.seed,
        "task": task,
        "single_score": _mean(result.single[place]),
        "random_score": _mean(result.random[place]),
        **values,
    }
    for episode, score in enumerate(scores):
        row = {**common, "episode": episode, "score": float(score)}
        yield {column: row.get(column) for column in COLUMNS}


def _mean(games: np.ndarray) -> float | None:
    mean = float(games.mean())
    return None if math.isnan(mean) else mean


def _reference_rows(results: Sequence[RunResult], fraction: float) -> Iterator[Row]:
    """`single`, a DQN of its own after that task, and `random`, after none; each stage once, since runs share them."""
    seen = set()
    for result in results:
        for j, task in enumerate(result.tasks):
            trained = result.settings.short_term.agent_steps
            single = {"condition": "single", "stage": 1, "after_task": task, "agent_steps": trained}
            random = {"condition": "random", "stage": 0, "after_task": "", "agent_steps": 0}
            sources = ((single, result.stages["singles"][j], result.single[j]),)
            for values, digest, games in (*sources, (random, result.stages["random"], result.random[j])):
                if (digest, task) not in seen and not np.isnan(games).any():
                    seen.add((digest, task))
                    yield from _games(result, fraction, task, games.tolist(), moment=LEARNT, **values)


def as_csv(results: Sequence[RunResult], fraction: float) -> str:
    """With the format's number in a column of its own, so that files can be joined; what is not known is empty."""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, ["format", *COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"format": FORMAT, **row} for row in all_rows(results, fraction))
    return text.getvalue()


def as_json(results: Sequence[RunResult], fraction: float) -> str:
    """One object: the format's number, the columns and the rows, a row a line; what is not known is null."""
    rows = ",\n".join(json.dumps(row) for row in all_rows(results, fraction))
    return f'{{"format": {FORMAT}, "columns": {json.dumps(COLUMNS)}, "rows": [\n{rows}\n]}}'
