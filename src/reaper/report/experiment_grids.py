"""The tables of the paper's experiments, each with one sentence on what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from reaper import metrics
from reaper.analyses.grid import average_of_known, choose, game_range, min_max
from reaper.paper.results import CHOSEN, FISHER_OVERLAP, IMPORTANCE, SCRATCH, TASKS, Score
from reaper.report.findings import listed, percent, standing
from reaper.report.grids import NOTHING, Grid, decimals_for, metric_grid, number, paper_grid, score, score_grid
from reaper.report.scores import _within_chance, gather_scores
from reaper.results import RunResult
from reaper.store import Store

Told = tuple[list[Grid], str]


@dataclass(frozen=True)
class Material:
    """What a store holds of one experiment on one sequence."""

    store: Store
    records: list[dict[str, Any]]  # one a seed
    results: list[RunResult]

    @property
    def sequence(self) -> str:
        return self.records[0]["sequence"]

    @property
    def name(self) -> str:
        return self.records[0]["name"].rpartition("--seed-")[0]

    @property
    def tasks(self) -> list[str]:
        return self.records[0]["tasks"]

    @property
    def titles(self) -> list[str]:
        return self.records[0]["titles"]

    @property
    def is_the_papers(self) -> bool:
        return tuple(self.tasks) == TASKS

    @cached_property
    def further(self) -> list[dict[str, Any]]:
        """The stages that the analysis added, each with its seed."""
        return [{**row, "seed": record["seed"]} for record in self.records for row in record["stages"]]

    def rows(self, role: str) -> list[dict[str, Any]]:
        """Of one role, those that are finished."""
        return [row for row in self.further if row["role"] == role and self.store.has(row["digest"])]

    @property
    def missing(self) -> int:
        lists = ("teachers", "generators", "memories", "evaluations", "singles")
        wanted = {digest for result in self.results for role in lists for digest in result.stages[role]}
        wanted |= {row["digest"] for row in self.further}
        return sum(not self.store.has(digest) for digest in wanted)


def _moments(games: Sequence[float] | np.ndarray) -> tuple[float, float]:
    known = np.asarray(games, dtype=float)
    known = known[~np.isnan(known)]
    return (float(known.mean()), float(known.std())) if len(known) else (math.nan, math.nan)


def _columns(cells: list[list[tuple[float, float]]]) -> list[list[str]]:
    """Means and deviations as text, column by column with one precision each."""
    places = [decimals_for(cell[0] for cell in column) for column in zip(*cells, strict=True)]
    return [[score(*cell, place) for cell, place in zip(row, places, strict=True)] for row in cells]


def _published(cells: Sequence[Score | None]) -> list[str]:
    return [score(cell.mean, cell.deviation, 0) if cell else NOTHING for cell in cells]


# -- main, extended, policy-short


def scores(material: Material) -> Told:
    """The score table of the experiment's own conditions."""
    grids, said = [], ""
    for gathered in gather_scores(material.results):  # one, or none where the records of its runs are gone
        published = paper_grid(gathered)
        grids += [score_grid(gathered, with_paper=False), *([published] if published else []), metric_grid(gathered)]
        said = standing(gathered)
    return grids, said


# -- item-quality


@dataclass(frozen=True)
class Student:
    """Students of one kind, over the seeds: their games, and those of whoever taught them, on each of their tasks."""

    items: str
    tasks: tuple[str, ...]
    games: Mapping[str, np.ndarray]
    taught_by: Mapping[str, np.ndarray]
    random: Mapping[str, np.ndarray]

    def share(self, task: str) -> float:
        """Of the teacher's skill above random play; NaN where it has hardly any."""
        if _within_chance(self.taught_by[task], self.random[task]):
            return math.nan
        means = (float(part[task].mean()) for part in (self.games, self.random, self.taught_by))
        return float(metrics.normalised(*means))

    @property
    def average(self) -> float:
        return average_of_known([self.share(task) for task in self.tasks])


def read_students(material: Material) -> list[Student]:
    runs = {result.seed: result for result in material.results}
    groups: dict[tuple[tuple[str, ...], str], list[dict[str, Any]]] = {}
    for row in (row for row in material.rows("evaluation") if row["seed"] in runs):
        groups.setdefault((tuple(row["about"]["tasks"]), row["about"]["items"]), []).append(row)
    found = []
    for (tasks, items), rows in groups.items():
        parts: list[dict[str, list[np.ndarray]]] = [{task: [] for task in tasks} for _ in range(3)]
        for row in rows:
            run = runs[row["seed"]]
            for tested in material.store.stage(row["digest"]).document("rows"):
                task = tested["task"]
                place = run.tasks.index(task)
                alone = len(tasks) == 1
                teacher = run.single[place] if alone else run.scores[-1, place]
                for part, games in zip(parts, (tested["scores"], teacher, run.random[place]), strict=True):
                    part[task].append(np.asarray(games, dtype=float))
        joined = [{task: np.concatenate(games) for task, games in part.items()} for part in parts]
        found.append(Student(items, tasks, *joined))
    return found


def students(material: Material) -> Told:
    """Table scratch, and the same as shares of what the teacher could do."""
    found, tasks = read_students(material), material.tasks
    cells = [[_moments(student.games.get(task, ())) for task in tasks] for student in found]
    names = [_student_name(student, material) for student in found]
    cells += [[_moments(run[place]) for place in range(len(tasks))] for run in _references(material)]
    names += ["teacher of each", *(["teacher of all (RePR)"] if len(tasks) > 1 else []), "random play"]
    rows = [(name, *texts) for name, texts in zip(names, _columns(cells), strict=True)]
    notes = ["Mean and standard deviation over all games of all seeds of a student that only ever saw items."]
    shares = [
        (name, *(number(s.share(task)) if task in s.tasks else "" for task in tasks), number(s.average))
        for name, s in zip(names, found, strict=False)
    ]
    grids = [
        Grid("Students from scratch", ("taught from", *material.titles), rows, notes),
        Grid(
            "Share of the teacher's skill",
            ("taught from", *material.titles, "average"),
            shares,
            ["0 is random play, 1 the network that taught the student; a dash: that one hardly beats random play."],
        ),
    ]
    if material.is_the_papers:
        paper = [
            (name, *("" if cell is None else _published([cell])[0] for cell in row)) for name, row in SCRATCH.items()
        ]
        grids.insert(1, Grid("The paper's students (Table scratch)", ("taught from", *material.titles), paper))
    return grids, _students_say(found, len(tasks))


def _student_name(student: Student, material: Material) -> str:
    titles = dict(zip(material.tasks, material.titles, strict=True))
    whole = len(student.tasks) > 1
    return f"{student.items}, {f'all {len(student.tasks)}' if whole else titles[student.tasks[0]]}"


def _references(material: Material) -> list[np.ndarray]:
    """(tasks, games of all seeds): each task's own DQN, the last long-term agent, random play."""
    parts = [lambda run: run.single, lambda run: run.random]
    if len(material.tasks) > 1:
        parts.insert(1, lambda run: run.scores[-1])
    return [np.concatenate([part(run) for run in material.results], axis=1) for part in parts]


def _students_say(found: list[Student], tasks: int) -> str:
    def average(items: str, alone: bool) -> float:
        return average_of_known([s.average for s in found if s.items == items and (len(s.tasks) == 1) == alone])

    known = {(items, alone): average(items, alone) for items in ("dreamt", "real") for alone in (True, False)}
    parts = [
        f"{percent(known['dreamt', alone])} {where} (from real items {percent(known['real', alone])})"
        for alone, where in ((True, "on one task"), (False, f"on all {tasks} at once"))
        if not math.isnan(known["dreamt", alone] + known["real", alone])
    ]
    return f"Of its teacher's skill, a student reaches from dreamt items alone {listed(parts)}." if parts else ""


# -- importance


def importance(material: Material) -> Told:
    """Table lscale, and RePR at other values of alpha on the whole sequence."""
    grids = [_two_tasks(material)] if any(len(run.tasks) == 2 for run in material.results) else []
    whole = [
        run for run in material.results if len(run.tasks) == len(material.tasks) and run.condition["base"] == "RePR"
    ]
    if len(material.tasks) > 2:
        by_alpha = _by_alpha(whole)
        texts = _columns([[_moments(part) for part in _final(runs)] for runs in by_alpha.values()])
        rows = [
            (f"{alpha:g}", *text, number(_average(runs)))
            for (alpha, runs), text in zip(by_alpha.items(), texts, strict=True)
        ]
        notes = ["After the last task; the average is normalised: 0 is random play, 1 a DQN of the task alone."]
        grids.append(Grid("RePR on all tasks", ("alpha", *material.titles, "average"), rows, notes))
    return grids, _importance_says(material)


def _importance_says(material: Material) -> str:
    """At which alpha both of two tasks are played best."""
    said = []
    for base in ("PR", "RePR"):
        runs = [run for run in material.results if run.condition["base"] == base and len(run.tasks) == 2]
        if any(_within_chance(*pair) for run in runs for pair in zip(run.single, run.random, strict=True)):
            return ""  # what was hardly learnt cannot be played better or worse
        averages = {f"{alpha:g}": _average(alike) for alpha, alike in _by_alpha(runs).items()}
        best = choose(averages)
        said += [f"{base} at alpha {best} ({percent(averages[best])} of the level of a DQN for each)"] if best else []
    return f"Both of two tasks are played best by {listed(said)}." if said else ""


def _by_alpha(runs: list[RunResult]) -> dict[float, list[RunResult]]:
    alphas = sorted({run.settings.long_term.alpha for run in runs})
    return {alpha: [run for run in runs if run.settings.long_term.alpha == alpha] for alpha in alphas}


def _final(runs: list[RunResult]) -> list[np.ndarray]:
    """The games of the last agents, task by task."""
    return list(np.concatenate([run.final for run in runs], axis=1))


def _average(runs: list[RunResult]) -> float:
    return average_of_known([float(np.mean(run.matrix[-1])) for run in runs])


def _two_tasks(material: Material) -> Grid:
    """An old task and a new one, with and without a second memory, for each alpha."""
    titles, header, columns = material.titles[:2], ["alpha"], []
    for base in ("PR", "RePR"):
        by_alpha = _by_alpha([r for r in material.results if r.condition["base"] == base and len(r.tasks) == 2])
        texts = _columns([[_moments(part) for part in _final(runs)] for runs in by_alpha.values()])
        header += [f"{base}: {title}" for title in titles]
        columns.append(dict(zip(by_alpha, texts, strict=True)))
        if tuple(material.tasks[:2]) == TASKS[:2]:
            header += [f"{base}, paper: {title}" for title in titles]
            columns.append({alpha: _published(pair) for alpha, pair in IMPORTANCE[base].items()})
    alphas = sorted({alpha for column in columns for alpha in column})
    nothing = [NOTHING, NOTHING]
    rows = [(f"{alpha:g}", *(cell for column in columns for cell in column.get(alpha, nothing))) for alpha in alphas]
    notes = [f"After {titles[0]} and then {titles[1]} alone; alpha is the weight of the new task."]
    return Grid("Importance of the new task", tuple(header), rows, notes)


# -- overlap


def overlap(material: Material) -> Told:
    """Table F-over: the pairs in the order of the sequence, whichever way round it was learnt."""
    pairs = list(combinations(material.tasks, 2))
    titles = dict(zip(material.tasks, material.titles, strict=True))
    values: dict[str, dict[frozenset[str], list[float]]] = {}
    for row in material.rows("overlap"):
        for found in material.store.stage(row["digest"]).document("overlap"):
            cell = values.setdefault(row["about"]["condition"], {}).setdefault(
                frozenset((found["first"], found["second"])), []
            )
            cell += [] if found["overlap"] is None else [found["overlap"]]
    rows = [
        (name, *(_overlap_cell(cells.get(frozenset(pair), [])) for pair in pairs)) for name, cells in values.items()
    ]
    if material.is_the_papers:
        rows += [
            (f"{name}, paper", *(f"{published[pair]:.3f}" for pair in pairs))
            for name, published in FISHER_OVERLAP.items()
        ]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    notes = ["1: the same weights matter to both tasks in the same measure; 0: no weight matters to both."]
    if len(material.records) > 1:
        notes.append("Mean and standard deviation over seeds.")
    return [Grid("Fisher overlap", header, rows, notes)], _overlap_says(values, pairs, titles)


def _overlap_cell(values: list[float]) -> str:
    if not values:
        return NOTHING
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values):.3f}" if len(values) > 1 else "")


def _overlap_says(
    values: Mapping[str, Mapping[frozenset[str], list[float]]], pairs: list[tuple[str, str]], titles: Mapping[str, str]
) -> str:
    """Which pair shares most, and whether that is so in either order."""
    if len(pairs) < 2:
        return ""
    most = {
        name: max(cells, key=lambda pair: float(np.mean(cells[pair])))
        for name, cells in values.items()
        if cells and all(cells.values())
    }
    if len(most) < 2:
        return ""
    if len(set(most.values())) == 1:
        pair = next(pair for pair in pairs if frozenset(pair) in most.values())
        return f"In either order {titles[pair[0]]} and {titles[pair[1]]} share most."
    return "Which tasks share most depends on the order they were learnt in."


# -- ewc-search


def grid_search(material: Material) -> Told:
    """Every point of the two grids with its min-max normalised scores, and which one is chosen."""
    grids, said = [], []
    for base in CHOSEN:
        runs = [run for run in material.results if run.condition["base"] == base]
        points: dict[str, list[RunResult]] = {}
        for run in runs:
            points.setdefault(run.name.removeprefix(base + " "), []).append(run)
        shares = {name: _point(material, alike) for name, alike in points.items()}
        averages = {name: average_of_known(values) for name, values in shares.items()}
        best = choose(averages)
        rows = [
            (name, *map(number, shares[name]), number(averages[name]), "chosen" if name == best else "")
            for name in sorted(points, key=lambda name: _strengths(points[name][0]))
        ]
        theirs = " ".join(f"{name}={value:g}" for name, value in CHOSEN[base].items())
        notes = [f"0 is the worst and 1 the best game in all tests of the task's teacher. The paper chose {theirs}."]
        grids.append(Grid(f"Grid of {base}", (base, *material.titles, "average", ""), rows, notes))
        said += [f"{best} for {base} (the paper: {theirs})"] if best else []
    return grids, f"Chosen: {listed(said)}." if said else ""


def _strengths(run: RunResult) -> tuple[float, ...]:
    ewc = run.settings.ewc
    return (ewc.strength, ewc.online_strength, ewc.online_decay)


def _point(material: Material, runs: list[RunResult]) -> list[float]:
    """The last agents' scores on each task, normalised seed by seed with the games of that seed's teachers."""
    store = material.store
    by_seed = []
    for run in runs:
        ranges = [
            game_range(store.stage(digest).document("rows") if store.has(digest) else [])
            for digest in run.stages["teachers"]
        ]
        by_seed.append([min_max(float(f.mean()), *r) for f, r in zip(run.final, ranges, strict=True)])
    return [average_of_known(column) for column in zip(*by_seed, strict=True)]


GRIDS: Mapping[str, Callable[[Material], Told]] = {
    "scores": scores,
    "students": students,
    "importance": importance,
    "overlap": overlap,
    "grid": grid_search,
}
