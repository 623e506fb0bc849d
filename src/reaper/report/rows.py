"""Scores as tidy rows, one a game, for anyone who wants to do their own arithmetic."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from reaper.results import COLUMNS, RunResult, tidy_rows


def as_csv(results: Sequence[RunResult]) -> str:
    """All games of all agents, and those of the references they are normalised with."""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, list[str](COLUMNS), lineterminator="\n")
    writer.writeheader()
    for result in results:
        writer.writerows(tidy_rows(result))
    writer.writerows(reference_rows(results))
    return text.getvalue()


def reference_rows(results: Sequence[RunResult]) -> Iterator[dict[str, Any]]:
    """Rows of the references, each stage once: a DQN of its own after that task, random play after none."""
    seen = set()
    for result in results:
        for j, task in enumerate(result.tasks):
            sources = (("single", task, result.stages["singles"][j]), ("random", "", result.stages["random"]))
            for name, after, digest in sources:
                games = (result.single if name == "single" else result.random)[j]
                if (digest, task) in seen or any(games != games):
                    continue
                seen.add((digest, task))
                frames = result.settings.short_term.observed_frames if after else 0
                for game, score in enumerate(games.tolist()):
                    values = (name, result.sequence, result.seed, after, task, frames, game, score)
                    yield dict(zip(COLUMNS, values, strict=True))
