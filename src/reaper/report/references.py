"""References that scores are compared with: single-task DQNs and random play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reaper.paper.results import SINGLE, Score
from reaper.report.condition_order import rank_of
from reaper.results.runs import RunResult


@dataclass(frozen=True)
class Reference:
    """A baseline for all conditions: one DQN per task, or random play."""

    label: str
    episodes: tuple[np.ndarray, ...]  # per task, the known scores of all seeds
    published: tuple[Score | None, ...]


def read_references(runs: list[RunResult]) -> tuple[Reference, ...]:
    """One `single` reference per distinct DQN setting (extended conditions have larger networks), and random play."""
    kinds: dict[object, list[RunResult]] = {}
    for run in runs:
        settings = run.settings
        learner = (settings.observation, settings.network, settings.optimiser, settings.training, settings.short_term)
        kinds.setdefault((learner, settings.evaluation), []).append(run)
    found = []
    for alike in kinds.values():
        names = sorted({run.name for run in alike}, key=rank_of)
        label = "single" if len(kinds) == 1 else f"single ({', '.join(names)})"
        episodes = _distinct([(run.record.singles, run.single) for run in alike])
        found.append(Reference(label, episodes, tuple(SINGLE.get(task) for task in runs[0].tasks)))
    random = _distinct([([run.record.random] * len(run.tasks), run.random) for run in runs])
    return (*found, Reference("random", random, (None,) * len(runs[0].tasks)))


def _distinct(measured: list[tuple[Sequence[str | None], np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Episodes per task, with each stage counted once: conditions of one seed share their references."""
    tasks = len(measured[0][1])
    by_task: list[dict[str | None, np.ndarray]] = [{} for _ in range(tasks)]
    for digests, scores in measured:
        for j in range(tasks):
            if not np.isnan(scores[j]).any():
                by_task[j][digests[j]] = scores[j]
    return tuple(np.concatenate([np.empty(0), *scores.values()]) for scores in by_task)
