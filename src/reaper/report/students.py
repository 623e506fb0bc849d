"""Table scratch: students taught from nothing but real or generated items."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reaper.paper.results import SCRATCH
from reaper.report.experiment_data import ExperimentData, TablesAndSummary, moments, published_texts, score_texts
from reaper.report.findings import listed, percent
from reaper.report.score_tables import TextTable, number
from reaper.report.scores import within_chance
from reaper.results import metrics
from reaper.study.analyses.grid import average_of_known


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
        if within_chance(self.taught_by[task], self.random[task]):
            return math.nan
        means = (float(part[task].mean()) for part in (self.games, self.random, self.taught_by))
        return float(metrics.normalised(*means))

    @property
    def average(self) -> float:
        return average_of_known([self.share(task) for task in self.tasks])


def read_students(material: ExperimentData) -> list[Student]:
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


def students(material: ExperimentData) -> TablesAndSummary:
    """Table scratch, and the same as shares of what the teacher could do."""
    found, tasks = read_students(material), material.tasks
    cells = [[moments(student.games.get(task, ())) for task in tasks] for student in found]
    names = [_student_name(student, material) for student in found]
    cells += [[moments(run[place]) for place in range(len(tasks))] for run in _references(material)]
    names += ["teacher of each", *(["teacher of all (RePR)"] if len(tasks) > 1 else []), "random play"]
    rows = [(name, *texts) for name, texts in zip(names, score_texts(cells), strict=True)]
    notes = ["Mean and standard deviation over all games of all seeds of a student that only ever saw items."]
    shares = [
        (name, *(number(s.share(task)) if task in s.tasks else "" for task in tasks), number(s.average))
        for name, s in zip(names, found, strict=False)
    ]
    grids = [
        TextTable("Students from scratch", ("taught from", *material.titles), rows, notes),
        TextTable(
            "Share of the teacher's skill",
            ("taught from", *material.titles, "average"),
            shares,
            ["0 is random play, 1 the network that taught the student; a dash: that one hardly beats random play."],
        ),
    ]
    if material.is_the_papers:
        paper = [
            (name, *("" if cell is None else published_texts([cell])[0] for cell in row))
            for name, row in SCRATCH.items()
        ]
        grids.insert(1, TextTable("The paper's students (Table scratch)", ("taught from", *material.titles), paper))
    return grids, _students_say(found, len(tasks))


def _student_name(student: Student, material: ExperimentData) -> str:
    titles = dict(zip(material.tasks, material.titles, strict=True))
    whole = len(student.tasks) > 1
    return f"{student.items}, {f'all {len(student.tasks)}' if whole else titles[student.tasks[0]]}"


def _references(material: ExperimentData) -> list[np.ndarray]:
    """(tasks, games of all seeds): each task's own DQN, the last long-term agent, random play."""
    parts = [lambda run: run.single, lambda run: run.random]
    if len(material.tasks) > 1:
        parts.insert(1, lambda run: run.scores[-1])
    return [np.concatenate([part(run) for run in material.results], axis=1) for part in parts]


def _students_say(found: list[Student], tasks: int) -> str:
    if any(math.isnan(student.share(task)) for student in found for task in student.tasks):
        return ""  # the table has to speak for itself where some teacher has hardly learnt anything

    def average(items: str, alone: bool) -> float:
        return average_of_known([s.average for s in found if s.items == items and (len(s.tasks) == 1) == alone])

    known = {(items, alone): average(items, alone) for items in ("generated", "real") for alone in (True, False)}
    parts = [
        f"{percent(known['generated', alone])} {where} (from real items {percent(known['real', alone])})"
        for alone, where in ((True, "on one task"), (False, f"on all {tasks} at once"))
        if not math.isnan(known["generated", alone] + known["real", alone])
    ]
    return f"Of its teacher's skill, a student reaches from generated items alone {listed(parts)}." if parts else ""
