"""Runs grouped by sequence and condition, with their scores over episodes and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reaper.config.presets import PAPER
from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.paper.results import SCORES, Score, published_scores
from reaper.report.condition_order import rank_of
from reaper.report.references import Reference, read_references
from reaper.report.text_table import UNKNOWN
from reaper.results import metrics
from reaper.results.continual_world import CONTINUAL_WORLD
from reaper.results.runs import RunResult


def mean_of_known(values: Sequence[np.ndarray] | np.ndarray, axis: int = 0) -> np.ndarray:
    """The mean over the values that are not NaN; NaN, without a warning, where there are none."""
    array = np.asarray(values, dtype=float)
    count = np.sum(~np.isnan(array), axis=axis)
    return np.where(count > 0, np.nansum(array, axis=axis) / np.maximum(count, 1), np.nan)


def count_of_tasks(counts: Sequence[int], tasks: int) -> str:
    """How many tasks an average counts, for each of its seeds; a dash where there are none."""
    if not counts:
        return UNKNOWN
    fewest, most = min(counts), max(counts)
    return f"{fewest} of {tasks}" if fewest == most else f"{fewest} to {most} of {tasks}"


@dataclass(frozen=True)
class ConditionScores:
    """One condition on one sequence, over its seeds."""

    runs: tuple[RunResult, ...]

    @property
    def name(self) -> str:
        return self.runs[0].name

    @property
    def retention(self) -> str:
        return self.runs[0].condition["retention"]["name"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @cached_property
    def complete(self) -> tuple[RunResult, ...]:
        """The runs whose final agent has been evaluated on every task: only these count as results."""
        return tuple(run for run in self.runs if not np.isnan(run.final).any())

    @cached_property
    def episodes(self) -> np.ndarray:
        """Scores of all final agents: (tasks, seeds x episodes)."""
        empty = np.empty((len(self.runs[0].tasks), 0))
        return np.concatenate([empty, *(run.final for run in self.complete)], axis=1)

    @property
    def normalised(self) -> np.ndarray:
        """Normalised score per task after the last one: the mean over seeds."""
        return mean_of_known([run.matrix[-1] for run in self.complete] or [np.full(len(self.episodes), np.nan)])

    def metric(self, name: str) -> list[float]:
        """A metric's value for each complete seed for which it is defined."""
        values = [metrics.METRICS[name](run.matrix, run.first) for run in self.complete]
        return [value for value in values if not np.isnan(value)]

    def run_metric(self, name: str) -> list[float]:
        """One of Continual World's metrics for each complete seed for which it is defined."""
        values = [CONTINUAL_WORLD[name](run) for run in self.complete]
        return [value for value in values if not np.isnan(value)]

    @property
    def counted(self) -> str:
        """How many tasks the averages count: "2 of 3", or "2 to 3 of 3" where seeds differ."""
        return count_of_tasks([len(metrics.counted(run.matrix)) for run in self.complete], len(self.episodes))

    @property
    def memory_bytes(self) -> float:
        """Size of the final long-term memory, averaged over seeds."""
        return _mean_size([run.memory_bytes[-1] for run in self.complete])

    @property
    def compressed_bytes(self) -> float:
        """The same if its raw items were compressed; NaN for conditions without raw items."""
        return _mean_size([run.compressed_bytes[-1] for run in self.complete])

    @property
    def stored_items(self) -> float:
        """How many real items the final memory holds; NaN for conditions that store none."""
        return _mean_size([run.stored_items[-1] for run in self.complete])

    @cached_property
    def raw_matrix(self) -> np.ndarray:
        return mean_of_known([run.scores.mean(axis=2) for run in self.runs])

    @cached_property
    def matrix(self) -> np.ndarray:
        return mean_of_known([run.matrix for run in self.runs])

    @property
    def published(self) -> tuple[Score, ...] | None:
        """The paper's scores for this condition on exactly these tasks in this order."""
        run = self.runs[0]
        return published_scores(self.name, run.tasks, run.settings.long_term.alpha)

    @property
    def published_bytes(self) -> float:
        """NaN where the paper has no memory size for this condition on these tasks."""
        known = self.published is not None and len(self.episodes) == 3
        return SCORES[self.name].memory_gigabytes * 1e9 if known else float("nan")


@dataclass(frozen=True)
class SequenceScores:
    """All conditions that learnt one sequence of tasks."""

    sequence: str
    tasks: tuple[str, ...]
    titles: tuple[str, ...]
    conditions: tuple[ConditionScores, ...]  # those that learn tasks in sequence
    references: tuple[Reference, ...]
    runs: tuple[RunResult, ...]  # all of them

    @property
    def complete(self) -> tuple[ConditionScores, ...]:
        return tuple(condition for condition in self.conditions if condition.complete)

    @property
    def share_of_budget(self) -> float:
        """The share of the paper's training budget; scores are comparable with the paper's only at 1."""
        return min(_budget_share(run.settings) for run in self.runs)

    @property
    def undefined(self) -> dict[str, list[int]]:
        """Titles of the tasks whose normalised scores are undefined, because the single-task DQN is no better than
        random play -> the seeds for which this is so."""
        found: dict[str, list[int]] = {}
        for run in self.runs:
            for title, undefined in zip(self.titles, run.no_better_than_random, strict=True):
                if undefined and run.seed not in found.setdefault(title, []):
                    found[title].append(run.seed)
        return {title: sorted(found[title]) for title in self.titles if title in found}

    @property
    def continued_from(self) -> str | None:
        """The memory that these runs continue from, if any."""
        continued = self.runs[0].record.continued
        return continued.source if continued else None

    @property
    def sources(self) -> dict[str, str]:
        """Titles of the tasks whose teachers were trained elsewhere -> where these came from."""
        given = self.runs[0].record.sources
        pairs = zip(self.tasks, self.titles, strict=True)
        return {title: given[task].source for task, title in pairs if task in given}

    @property
    def without_reference(self) -> tuple[str, ...]:
        """Tasks of the memory these runs continue from that have no single-task DQN here."""
        known = self.runs[0].record.known_tasks
        return tuple(
            task
            for task, episodes in zip(self.tasks[:known], self.references[0].episodes, strict=False)
            if not len(episodes)
        )


def _mean_size(sizes: Sequence[int | None]) -> float:
    known = [size for size in sizes if size is not None]
    return float(np.mean(known)) if known else float("nan")


def _budget_share(settings: Settings) -> float:
    """The smallest share of the paper's short-term agent steps, long-term agent steps and generator steps."""

    def budget(of: Settings) -> tuple[int, ...]:
        return of.short_term.agent_steps, of.long_term.agent_steps, generator_for(of).steps

    return min(ours / theirs for ours, theirs in zip(budget(settings), budget(PAPER), strict=True))


def condition_names(sequences: Sequence[SequenceScores]) -> list[str]:
    """All conditions of a folder, each once."""
    return list(dict.fromkeys(condition.name for scores in sequences for condition in scores.conditions))


def gather_scores(results: Iterable[RunResult]) -> list[SequenceScores]:
    """One entry per sequence, sorted by name."""
    sequences: dict[tuple[str, tuple[str, ...]], list[RunResult]] = {}
    for result in results:
        if result.condition.get("base"):  # a point of a sweep, which its experiment reports
            continue
        sequences.setdefault((result.sequence, tuple(result.tasks)), []).append(result)
    return [_gather_sequence(runs) for _, runs in sorted(sequences.items())]


def _gather_sequence(runs: list[RunResult]) -> SequenceScores:
    by_name: dict[str, list[RunResult]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.consolidates:
            by_name.setdefault(run.name, []).append(run)
    conditions = tuple(ConditionScores(tuple(by_name[name])) for name in sorted(by_name, key=rank_of))
    first = runs[0]
    return SequenceScores(
        sequence=first.sequence,
        tasks=tuple(first.tasks),
        titles=tuple(first.titles),
        conditions=conditions,
        references=read_references(runs),
        runs=tuple(runs),
    )
