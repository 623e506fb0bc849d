"""Tables of the paper's experiments, each with a one-sentence summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from reaper.config.overrides import find_setting
from reaper.paper.results import BEST_EWC, FISHER_OVERLAP, IMPORTANCE, TASKS
from reaper.report.experiment_data import (
    ExperimentData,
    TablesAndSummary,
    known_mean_and_deviation,
    published_texts,
    score_texts,
)
from reaper.report.findings import final_level, listed, percent
from reaper.report.score_tables import sequence_tables
from reaper.report.scores import count_of_tasks, gather_scores
from reaper.report.students import student_tables
from reaper.report.text_table import UNKNOWN, TextTable, number
from reaper.results.metrics import METRICS, counted
from reaper.results.runs import RunResult
from reaper.study.analyses.grid import average_of_known, choose, episode_range, min_max, number_known

# -- main, extended, policy-short


def scores(data: ExperimentData) -> TablesAndSummary:
    """The tables of the experiment's own conditions."""
    tables, summary = [], ""
    for gathered in gather_scores(data.results):  # one, or none where the records of its runs are gone
        tables += sequence_tables(gathered)
        summary = final_level(gathered)
    return tables, summary


# -- importance


def importance(data: ExperimentData) -> TablesAndSummary:
    """Table lscale, and RePR at other values of alpha on the whole sequence."""
    tables = [_two_tasks(data)] if any(len(run.tasks) == 2 for run in data.results) else []
    whole = [run for run in data.results if len(run.tasks) == len(data.tasks) and run.condition["base"] == "RePR"]
    if len(data.tasks) > 2:
        by_alpha = _by_alpha(whole)
        texts = score_texts([[known_mean_and_deviation(part) for part in _final(runs)] for runs in by_alpha.values()])
        rows = [
            (f"{alpha:g}", *text, number(_average(runs)), _counted(runs))
            for (alpha, runs), text in zip(by_alpha.items(), texts, strict=True)
        ]
        notes = [
            "After the last task. The average is normalised: 0 is random play, 1 is a DQN trained on that task alone. "
            "Tasks: how many of them it counts; a single-task DQN that is no better than random play leaves its task "
            "out."
        ]
        tables.append(TextTable("RePR on all tasks", ("alpha", *data.titles, "average", "tasks"), rows, notes))
    return tables, _importance_summary(data)


def _importance_summary(data: ExperimentData) -> str:
    """The alpha with the best average over both of two tasks."""
    best_points = []
    for base in ("PR", "RePR"):
        runs = [run for run in data.results if run.condition["base"] == base and len(run.tasks) == 2]
        if any(run.no_better_than_random.any() for run in runs):
            return ""  # it speaks of both tasks
        averages = {f"{alpha:g}": _average(alike) for alpha, alike in _by_alpha(runs).items()}
        best = choose(averages)
        if best:
            best_points.append(f"{base} at alpha {best} ({percent(averages[best])} of the level of single-task DQNs)")
    return f"Both of two tasks are played best by {listed(best_points)}." if best_points else ""


def _by_alpha(runs: list[RunResult]) -> dict[float, list[RunResult]]:
    alphas = sorted({run.settings.long_term.alpha for run in runs})
    return {alpha: [run for run in runs if run.settings.long_term.alpha == alpha] for alpha in alphas}


def _final(runs: list[RunResult]) -> list[np.ndarray]:
    """Scores of the final agents, one array per task."""
    return list(np.concatenate([run.final for run in runs], axis=1))


def _average(runs: list[RunResult]) -> float:
    return average_of_known([METRICS["average"](run.matrix, run.first) for run in runs])


def _counted(runs: list[RunResult]) -> str:
    return count_of_tasks([len(counted(run.matrix)) for run in runs], len(runs[0].tasks))


def _two_tasks(data: ExperimentData) -> TextTable:
    """A first and a second task, with and without a short-term system, for each alpha."""
    titles, header, columns = data.titles[:2], ["alpha"], []
    for base in ("PR", "RePR"):
        by_alpha = _by_alpha([r for r in data.results if r.condition["base"] == base and len(r.tasks) == 2])
        texts = score_texts([[known_mean_and_deviation(part) for part in _final(runs)] for runs in by_alpha.values()])
        header += [f"{base}: {title}" for title in titles]
        columns.append(dict(zip(by_alpha, texts, strict=True)))
        if tuple(data.tasks[:2]) == TASKS[:2]:
            header += [f"{base} in the paper: {title}" for title in titles]
            columns.append({alpha: published_texts(pair) for alpha, pair in IMPORTANCE[base].items()})
    alphas = sorted({alpha for column in columns for alpha in column})
    unknown = [UNKNOWN, UNKNOWN]
    rows = [(f"{alpha:g}", *(cell for column in columns for cell in column.get(alpha, unknown))) for alpha in alphas]
    notes = [f"After only {titles[0]} and then {titles[1]}; alpha is the weight of the new task."]
    return TextTable("Importance of the new task", tuple(header), rows, notes)


# -- overlap


def overlap(data: ExperimentData) -> TablesAndSummary:
    """Table F-over: pairs of tasks, for the sequence learnt in either order."""
    pairs = list(combinations(data.tasks, 2))
    titles = dict(zip(data.tasks, data.titles, strict=True))
    values: dict[str, dict[frozenset[str], list[float]]] = {}
    for _, stage in data.finished("overlap"):
        cells = values.setdefault(stage.about["condition"], {})
        for row in data.store.stage(stage.digest).document("overlap"):
            cell = cells.setdefault(frozenset((row["first"], row["second"])), [])
            cell += [] if row["overlap"] is None else [row["overlap"]]
    rows = [
        (name, *(_overlap_cell(cells.get(frozenset(pair), [])) for pair in pairs)) for name, cells in values.items()
    ]
    if data.has_paper_tasks:
        rows += [
            (f"{name} in the paper", *(f"{published[pair]:.3f}" for pair in pairs))
            for name, published in FISHER_OVERLAP.items()
        ]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    notes = ["1: the same weights matter equally to both tasks; 0: no weight matters to both."]
    if len(data.records) > 1:
        notes.append("Mean and standard deviation over seeds.")
    return [TextTable("Fisher overlap", header, rows, notes)], _overlap_summary(values, pairs, titles)


def _overlap_cell(values: list[float]) -> str:
    if not values:
        return UNKNOWN
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values):.3f}" if len(values) > 1 else "")


def _overlap_summary(
    values: Mapping[str, Mapping[frozenset[str], list[float]]], pairs: list[tuple[str, str]], titles: Mapping[str, str]
) -> str:
    """The pair with the highest overlap, and whether it is the same in either order."""
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
        return f"In either order, {titles[pair[0]]} and {titles[pair[1]]} overlap most."
    return "Which tasks overlap most depends on the order they were learnt in."


# -- ewc-search


def grid_search(data: ExperimentData) -> TablesAndSummary:
    """Every point of the two grids with its min-max normalised scores, and the chosen one."""
    tables, best_points = [], []
    for base in BEST_EWC:
        runs = [run for run in data.results if run.condition["base"] == base]
        points: dict[str, list[RunResult]] = {}
        for run in runs:
            points.setdefault(run.name.removeprefix(base + " "), []).append(run)
        shares = {name: _point(data, alike) for name, alike in points.items()}
        averages = {name: average_of_known(values) for name, values in shares.items()}
        best = choose(averages)
        rows = [
            (
                name,
                *map(number, shares[name]),
                number(averages[name]),
                count_of_tasks([number_known(shares[name])], len(data.tasks)),
                "chosen" if name == best else "",
            )
            for name in sorted(points, key=lambda name: _ewc_settings(points[name][0]))
        ]
        theirs = " ".join(f"{name}={value:g}" for name, value in BEST_EWC[base].items())
        notes = [
            "0 is the worst and 1 the best episode of all evaluations of the task's teacher. Tasks: how many of them "
            f"the average counts. The paper chose {theirs}."
        ]
        tables.append(TextTable(f"Grid search of {base}", (base, *data.titles, "average", "tasks", ""), rows, notes))
        best_points += [f"{best} for {base} (the paper chose {theirs})"] if best else []
    return tables, f"Best: {listed(best_points)}." if best_points else ""


def _ewc_settings(run: RunResult) -> tuple[float, ...]:
    names = ("ewc.ewc-lambda", "online-ewc.ewc-lambda", "online-ewc.gamma")
    return tuple(find_setting(name).value_in(run.settings) for name in names)


def _point(data: ExperimentData, runs: list[RunResult]) -> list[float]:
    """The final agents' scores on each task, normalised per seed by the range of that seed's teachers."""
    store = data.store
    by_seed = []
    for run in runs:
        ranges = [
            episode_range(store.stage(digest).document("rows") if store.has(digest) else [])
            for digest in run.record.teachers
        ]
        by_seed.append([min_max(float(f.mean()), *r) for f, r in zip(run.final, ranges, strict=True)])
    return [average_of_known(column) for column in zip(*by_seed, strict=True)]


EXPERIMENT_TABLES: Mapping[str, Callable[[ExperimentData], TablesAndSummary]] = {
    "scores": scores,
    "students": student_tables,
    "importance": importance,
    "overlap": overlap,
    "grid": grid_search,
}
