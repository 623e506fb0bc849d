"""Table scratch of the paper: students trained from scratch on nothing but real or generated items."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reaper.paper.results import SCRATCH
from reaper.report.experiment_data import (
    ExperimentData,
    TablesAndSummary,
    known_mean_and_deviation,
    published_texts,
    score_texts,
)
from reaper.report.findings import listed, percent
from reaper.report.scores import count_of_tasks
from reaper.report.text_table import TextTable, number
from reaper.results import metrics
from reaper.results.runs import RunResult
from reaper.study.analyses.grid import average_of_known, number_known


@dataclass(frozen=True)
class Student:
    """Students of one kind over all seeds: scores per task of theirs, of their teachers and of random play."""

    items: str  # real or generated
    tasks: tuple[str, ...]
    episodes: Mapping[str, np.ndarray]
    teacher: Mapping[str, np.ndarray]
    random: Mapping[str, np.ndarray]

    def share(self, task: str) -> float:
        """The score as a share of the teacher's, above random play; NaN where the teacher is no better than random
        play."""
        if not metrics.better_than_random(self.teacher[task], self.random[task]):
            return math.nan
        means = (float(scores[task].mean()) for scores in (self.episodes, self.random, self.teacher))
        return float(metrics.normalised(*means))

    @property
    def shares(self) -> list[float]:
        return [self.share(task) for task in self.tasks]


def read_students(data: ExperimentData) -> list[Student]:
    runs = {result.seed: result for result in data.results}
    groups: dict[tuple[tuple[str, ...], str], list[tuple[RunResult, str]]] = {}
    for seed, stage in data.finished("evaluation"):
        if seed in runs:
            kind = tuple(stage.about["tasks"]), stage.about["items"]
            groups.setdefault(kind, []).append((runs[seed], stage.digest))
    students = []
    for (tasks, items), evaluations in groups.items():
        columns: list[dict[str, list[np.ndarray]]] = [{task: [] for task in tasks} for _ in range(3)]
        for run, digest in evaluations:
            for row in data.store.stage(digest).document("rows"):
                place = run.tasks.index(row["task"])
                teacher = run.single[place] if len(tasks) == 1 else run.scores[-1, place]
                for column, scores in zip(columns, (row["scores"], teacher, run.random[place]), strict=True):
                    column[row["task"]].append(np.asarray(scores, dtype=float))
        episodes, teachers, random = (
            {task: np.concatenate(scores) for task, scores in column.items()} for column in columns
        )
        students.append(Student(items, tasks, episodes=episodes, teacher=teachers, random=random))
    return students


def student_tables(data: ExperimentData) -> TablesAndSummary:
    """Table scratch, and the same scores as shares of the teachers'."""
    students, tasks = read_students(data), data.tasks
    cells = [[known_mean_and_deviation(student.episodes.get(task, [])) for task in tasks] for student in students]
    names = [_student_name(student, data) for student in students]
    cells += [[known_mean_and_deviation(scores[place]) for place in range(len(tasks))] for scores in _references(data)]
    names += ["teacher of each task", *(["teacher of all tasks (RePR)"] if len(tasks) > 1 else []), "random play"]
    rows = [(name, *texts) for name, texts in zip(names, score_texts(cells), strict=True)]
    notes = ["Mean and standard deviation over all episodes of all seeds; students were trained on items only."]
    tables = [TextTable("Students from scratch", ("trained on", *data.titles), rows, notes)]
    if data.has_paper_tasks:
        paper = [
            (name, *("" if cell is None else published_texts([cell])[0] for cell in row))
            for name, row in SCRATCH.items()
        ]
        tables.append(TextTable("The paper's students (Table scratch)", ("trained on", *data.titles), paper))
    return [*tables, _share_table(students, names, data)], _summary(students, len(tasks))


def _share_table(students: list[Student], names: list[str], data: ExperimentData) -> TextTable:
    rows = [
        (
            name,
            *(number(s.share(task)) if task in s.tasks else "" for task in data.tasks),
            number(average_of_known(s.shares)),
            count_of_tasks([number_known(s.shares)], len(s.tasks)),
        )
        for name, s in zip(names, students, strict=False)
    ]
    notes = [
        "0 is random play, 1 is the student's teacher. A dash: undefined, because the teacher is no better than random "
        "play (the 95 % intervals of their means overlap). Tasks: how many of them the average counts."
    ]
    return TextTable("Share of the teacher's score", ("trained on", *data.titles, "average", "tasks"), rows, notes)


def _student_name(student: Student, data: ExperimentData) -> str:
    titles = dict(zip(data.tasks, data.titles, strict=True))
    first, *others = student.tasks
    tasks = f"all {len(student.tasks)} tasks" if others else titles[first]
    return f"{student.items} items, {tasks}"


def _references(data: ExperimentData) -> list[np.ndarray]:
    """(tasks, episodes of all seeds): each task's DQN, the final long-term agent, random play."""
    kinds = [lambda run: run.single, lambda run: run.random]
    if len(data.tasks) > 1:
        kinds.insert(1, lambda run: run.scores[-1])
    return [np.concatenate([scores(run) for run in data.results], axis=1) for scores in kinds]


def _summary(students: list[Student], tasks: int) -> str:
    if any(math.isnan(student.share(task)) for student in students for task in student.tasks):
        return ""  # a share of a teacher that learnt hardly anything would be misleading

    def average(items: str, alone: bool) -> float:
        chosen = [s.shares for s in students if s.items == items and (len(s.tasks) == 1) == alone]
        return average_of_known([average_of_known(shares) for shares in chosen])

    known = {(items, alone): average(items, alone) for items in ("generated", "real") for alone in (True, False)}
    parts = [
        f"{percent(known['generated', alone])} {where} ({percent(known['real', alone])} from real items)"
        for alone, where in ((True, "on one task"), (False, f"on all {tasks} at once"))
        if not math.isnan(known["generated", alone] + known["real", alone])
    ]
    return f"From generated items alone, a student reaches {listed(parts)} of its teacher's score." if parts else ""
