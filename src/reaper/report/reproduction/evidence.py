"""What the summaries of results hold of one sequence of tasks with one preset and budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from reaper.config.presets import PAPER, PRESETS
from reaper.paper.results import Score
from reaper.report.findings import listed
from reaper.results.studies import RUNS, Source, Study, read_sources
from reaper.results.summary import OVERLAP, STUDENT, TEACHER, Row
from reaper.results.tidy import FINAL
from reaper.study.analyses.grid import average_of_known
from reaper.study.conditions import MAIN

BySeed = dict[int, float]
REFERENCES = ("single", "random")
OURS = ("RePR-plus", "RePR-mixed")  # conditions that the paper does not have


@dataclass(frozen=True)
class Group:
    """Rows that may be compared with each other: one sequence, one preset, one fraction of the budget, one set of
    overrides."""

    sequence: str
    preset: str
    fraction: float
    overrides: str  # settings that the user gave, as text
    averaged: str  # the seeds that its rows are means over, where they cannot be told apart
    sources: tuple[tuple[Source, list[Row]], ...]

    @property
    def label(self) -> str:
        whose = "the paper's budget" if self.is_atari else "the budget"
        budget = "the full budget" if self.share == 1 else f"{self.share:g} of {whose}"
        changed = self.overrides.count("--")
        settings = f"{changed} settings changed" if changed > 1 else self.overrides
        parts = (self.sequence, f"preset {self.preset}", budget, settings, self.averaged)
        return ", ".join(part for part in parts if part)

    @property
    def name(self) -> str:
        """The label in short, for headings; the page's first table says what it stands for."""
        budget = "" if self.share == 1 else f"at {self.share:g}"
        preset = " ".join(part for part in (self.preset if self.is_atari else "", budget) if part)
        changed = self.overrides.count("--")
        parts = (self.sequence, preset, f"{changed} changed" if changed else "", self.averaged)
        return ", ".join(part for part in parts if part)

    @property
    def share(self) -> float:
        """The share of the full budget: on Atari that of the paper, whatever the preset."""
        steps = PRESETS[self.preset].short_term.agent_steps if self.preset in PRESETS else PAPER.short_term.agent_steps
        return self.fraction * steps / PAPER.short_term.agent_steps if self.is_atari else self.fraction

    @property
    def is_atari(self) -> bool:
        return self.sequence.startswith("atari")

    @cached_property
    def finished_conditions(self) -> set[str]:
        return {row["condition"] for row in self.rows if row["kind"] == FINAL}

    @cached_property
    def seeds(self) -> list[int]:
        """Of its rows, or those that they are averages over."""
        if self.averaged:
            return sorted({study.seed for source, _ in self.sources for study in source.studies})
        return sorted({row["seed"] for row in self.rows})

    @cached_property
    def rows(self) -> list[Row]:
        """Each condition's rows of each seed come from one source: the one that has most of them, and of two that have
        as many, the one with more of the paper's main conditions. Experiments with larger networks have single-task
        DQNs and teachers of their own."""
        found: dict[tuple[object, ...], list[list[Row]]] = {}
        for _, rows in sorted(self.sources, key=lambda pair: -_main_conditions(pair[1])):
            own: dict[tuple[object, ...], list[Row]] = {}
            for row in rows:
                if row["sequence"] == self.sequence:
                    own.setdefault((row["seed"], row["condition"], row["kind"]), []).append(row)
            for key, alike in own.items():
                found.setdefault(key, []).append(alike)
        return [row for several in found.values() for row in max(several, key=len)]  # the first of the longest

    def titles(self, tasks: Iterable[str]) -> list[str]:
        known = {task: title for source, _ in self.sources for task, title in source.titles.items()}
        return [known.get(task, task) for task in tasks]

    @cached_property
    def tasks(self) -> list[str]:
        """In the order in which they are learnt."""
        finals = [row for row in self.rows if row["kind"] == FINAL and row["condition"] not in REFERENCES]
        learnt = {row["num_tasks"]: row["after_task"] for row in finals}
        named = [task for row in self.rows for task in (*row["after_task"].split("+"), row["task"]) if task]
        return [learnt[k] for k in sorted(learnt)] or list(dict.fromkeys(named))

    def studies(self, experiment: str) -> list[tuple[Source, Study]]:
        """Where an experiment was run on this sequence; `reaper run` counts as `main`."""
        names = (experiment, RUNS) if experiment == "main" else (experiment,)
        return [
            (source, study)
            for source, _ in self.sources
            for study in source.studies
            if study.sequence == self.sequence and study.experiment in names and study.missing < study.stages
        ]

    # -- scores of conditions

    def after(self, condition: str, num_tasks: int | None = None) -> dict[int, dict[str, Row]]:
        """Seed -> task -> the evaluation of the agent after so many tasks (all by default); complete ones only."""
        count = num_tasks or len(self.tasks)
        found: dict[int, dict[str, Row]] = {}
        for row in self.rows:
            if (row["condition"], row["kind"], row["num_tasks"]) == (condition, FINAL, count):
                found.setdefault(row["seed"], {})[row["task"]] = row
        return {seed: by_task for seed, by_task in sorted(found.items()) if set(self.tasks) <= set(by_task)}

    def levels(self, condition: str) -> BySeed:
        """Seed -> the average over tasks of the last agent's normalised scores."""
        return self._per_seed(condition, lambda row: row["normalised"])

    def shares(self, condition: str) -> BySeed:
        """Seed -> the average over tasks of score / score of a single-task DQN, which is the paper's summary."""
        single = {(row["seed"], row["task"]): row["mean"] for row in self.rows if row["condition"] == "single"}

        def share(row: Row) -> float | None:
            level = single.get((row["seed"], row["task"]))
            return row["mean"] / level if level and level > 0 else None

        return self._per_seed(condition, share)

    def _per_seed(self, condition: str, value: Callable[[Row], float | None]) -> BySeed:
        found = {}
        for seed, by_task in self.after(condition).items():
            known = [number for task in self.tasks if (number := value(by_task[task])) is not None]
            if known:
                found[seed] = float(np.mean(known))
        return found

    def task_levels(self, condition: str, task: str, num_tasks: int | None = None) -> BySeed:
        """Seed -> the normalised score on one task."""
        rows = {seed: by_task[task] for seed, by_task in self.after(condition, num_tasks).items()}
        return {seed: row["normalised"] for seed, row in rows.items() if row["normalised"] is not None}

    def score(self, condition: str, task: str) -> Score | None:
        """Mean and standard deviation over all episodes of all seeds, of the last agent."""
        if condition in REFERENCES:
            rows = [row for row in self.rows if row["condition"] == condition and row["task"] == task]
        else:
            rows = [by_task[task] for by_task in self.after(condition).values()]
        return pooled(rows)

    def memory_bytes(self, condition: str) -> int | None:
        sizes = [by_task[self.tasks[-1]]["memory_bytes"] for by_task in self.after(condition).values()]
        return max((size for size in sizes if size), default=None)

    def conditions(self, base: str) -> list[str]:
        """The points of a sweep (`ewc lambda=50`), and the condition itself."""
        names = dict.fromkeys(row["condition"] for row in self.rows if row["kind"] == FINAL)
        return [name for name in names if name == base or name.startswith(f"{base} ")]

    # -- what experiments add

    def student_shares(self, items: str, tasks: Sequence[str], task: str) -> BySeed:
        """Seed -> the student's score on one of its tasks, as a share of its teacher's."""
        return {
            row["seed"]: row["normalised"]
            for row in self._kind(STUDENT)
            if (row["condition"], row["after_task"], row["task"]) == (items, "+".join(tasks), task)
            and row["normalised"] is not None
        }

    def overlaps(self, condition: str, pair: tuple[str, str]) -> BySeed:
        return {
            row["seed"]: row["mean"]
            for row in self._kind(OVERLAP)
            if row["condition"] == condition
            and {row["after_task"], row["task"]} == set(pair)
            and row["mean"] is not None
        }

    def grid_levels(self, condition: str) -> BySeed:
        """Seed -> the average over tasks of scores between the worst and the best episode of the task's teacher."""
        ranges = {(row["seed"], row["task"]): (row["min"], row["max"]) for row in self._kind(TEACHER)}

        def level(row: Row) -> float | None:
            worst, best = ranges.get((row["seed"], row["task"]), (math.nan, math.nan))
            return (row["mean"] - worst) / (best - worst) if best > worst else None

        return self._per_seed(condition, level)

    def _kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row["kind"] == kind]


def _main_conditions(rows: Sequence[Row]) -> int:
    return len({row["condition"] for row in rows} & set(MAIN))


def pooled(rows: Sequence[Row]) -> Score | None:
    """As if all episodes were in one list; the deviation is NaN where a source did not state it."""
    if not rows:
        return None
    weights = np.array([row["episodes"] for row in rows], dtype=float)
    means = np.array([row["mean"] for row in rows])
    spreads = np.array([math.nan if row["std"] is None else row["std"] for row in rows])
    mean = float(np.average(means, weights=weights))
    return Score(mean, float(np.sqrt(np.average(spreads**2 + (means - mean) ** 2, weights=weights))))


def read_groups(folder: Path) -> list[Group]:
    """Every group that has rows, Atari's first."""
    sources = read_sources(folder)
    keys = {(row["sequence"], *_settings(source)) for source, rows in sources for row in rows}
    order = sorted(keys, key=lambda key: (not key[0].startswith("atari"), *key))
    return [Group(*key, tuple(pair for pair in sources if _settings(pair[0]) == key[1:])) for key in order]


def _settings(source: Source) -> tuple[str, float, str, str]:
    overrides = " ".join(f"--{name} {value}" for name, value in sorted(source.overrides.items()))
    seeds = sorted({study.seed for study in source.studies})
    averaged = f"seeds {listed(list(map(str, seeds)))} averaged" if source.averaged else ""
    return source.preset, source.fraction, overrides, averaged


def reported(groups: Sequence[Group]) -> list[Group]:
    """Without the groups that only vary a setting of another one: they are evidence for what that one shows, unless
    they have conditions that it lacks."""
    plain: dict[tuple[str, str, float], set[str]] = {}
    for group in groups:
        if not group.overrides:
            plain.setdefault((group.sequence, group.preset, group.fraction), set()).update(group.finished_conditions)

    def adds_nothing(group: Group) -> bool:
        own = plain.get((group.sequence, group.preset, group.fraction))
        return bool(group.overrides) and own is not None and group.finished_conditions <= own

    return [group for group in groups if not adds_nothing(group)]


def unreplaced(groups: Sequence[Group]) -> list[Group]:
    """Without averages over seeds of what another group has seed by seed."""
    by_seed = {
        (group.sequence, group.preset, group.fraction, group.overrides) for group in groups if not group.averaged
    }
    return [
        group
        for group in groups
        if not group.averaged or (group.sequence, group.preset, group.fraction, group.overrides) not in by_seed
    ]


def having(groups: Sequence[Group], conditions: Sequence[str]) -> list[Group]:
    """The groups in which any of these conditions has learnt all tasks."""
    return [group for group in groups if any(group.after(name) for name in conditions)]


def mean_of(by_seed: BySeed) -> float:
    return average_of_known(list(by_seed.values()))
