"""The tables of the paper's experiments, each with one sentence on what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from reaper.config.overrides import find_setting
from reaper.paper.results import BEST_EWC, FISHER_OVERLAP, IMPORTANCE, TASKS
from reaper.report.experiment_data import ExperimentData, TablesAndSummary, moments, published_texts, score_texts
from reaper.report.findings import final_level, listed, percent
from reaper.report.paper_comparison import paper_table
from reaper.report.score_tables import NOTHING, TextTable, metric_table, number, score_table
from reaper.report.scores import gather_scores, within_chance
from reaper.report.students import students
from reaper.results.runs import RunResult
from reaper.study.analyses.grid import average_of_known, choose, game_range, min_max

# -- main, extended, policy-short


def scores(material: ExperimentData) -> TablesAndSummary:
    """The score table of the experiment's own conditions."""
    grids, said = [], ""
    for gathered in gather_scores(material.results):  # one, or none where the records of its runs are gone
        published = paper_table(gathered)
        grids += [score_table(gathered), *([published] if published else []), metric_table(gathered)]
        said = final_level(gathered)
    return grids, said


# -- importance


def importance(material: ExperimentData) -> TablesAndSummary:
    """Table lscale, and RePR at other values of alpha on the whole sequence."""
    grids = [_two_tasks(material)] if any(len(run.tasks) == 2 for run in material.results) else []
    whole = [
        run for run in material.results if len(run.tasks) == len(material.tasks) and run.condition["base"] == "RePR"
    ]
    if len(material.tasks) > 2:
        by_alpha = _by_alpha(whole)
        texts = score_texts([[moments(part) for part in _final(runs)] for runs in by_alpha.values()])
        rows = [
            (f"{alpha:g}", *text, number(_average(runs)))
            for (alpha, runs), text in zip(by_alpha.items(), texts, strict=True)
        ]
        notes = ["After the last task; the average is normalised: 0 is random play, 1 a DQN of the task alone."]
        grids.append(TextTable("RePR on all tasks", ("alpha", *material.titles, "average"), rows, notes))
    return grids, _importance_says(material)


def _importance_says(material: ExperimentData) -> str:
    """At which alpha both of two tasks are played best."""
    said = []
    for base in ("PR", "RePR"):
        runs = [run for run in material.results if run.condition["base"] == base and len(run.tasks) == 2]
        if any(within_chance(*pair) for run in runs for pair in zip(run.single, run.random, strict=True)):
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


def _two_tasks(material: ExperimentData) -> TextTable:
    """An old task and a new one, with and without a second memory, for each alpha."""
    titles, header, columns = material.titles[:2], ["alpha"], []
    for base in ("PR", "RePR"):
        by_alpha = _by_alpha([r for r in material.results if r.condition["base"] == base and len(r.tasks) == 2])
        texts = score_texts([[moments(part) for part in _final(runs)] for runs in by_alpha.values()])
        header += [f"{base}: {title}" for title in titles]
        columns.append(dict(zip(by_alpha, texts, strict=True)))
        if tuple(material.tasks[:2]) == TASKS[:2]:
            header += [f"{base}, paper: {title}" for title in titles]
            columns.append({alpha: published_texts(pair) for alpha, pair in IMPORTANCE[base].items()})
    alphas = sorted({alpha for column in columns for alpha in column})
    nothing = [NOTHING, NOTHING]
    rows = [(f"{alpha:g}", *(cell for column in columns for cell in column.get(alpha, nothing))) for alpha in alphas]
    notes = [f"After {titles[0]} and then {titles[1]} alone; alpha is the weight of the new task."]
    return TextTable("Importance of the new task", tuple(header), rows, notes)


# -- overlap


def overlap(material: ExperimentData) -> TablesAndSummary:
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
    return [TextTable("Fisher overlap", header, rows, notes)], _overlap_says(values, pairs, titles)


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


def grid_search(material: ExperimentData) -> TablesAndSummary:
    """Every point of the two grids with its min-max normalised scores, and which one is chosen."""
    grids, said = [], []
    for base in BEST_EWC:
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
        theirs = " ".join(f"{name}={value:g}" for name, value in BEST_EWC[base].items())
        notes = [f"0 is the worst and 1 the best game in all tests of the task's teacher. The paper chose {theirs}."]
        grids.append(TextTable(f"Grid of {base}", (base, *material.titles, "average", ""), rows, notes))
        said += [f"{best} for {base} (the paper: {theirs})"] if best else []
    return grids, f"Chosen: {listed(said)}." if said else ""


def _strengths(run: RunResult) -> tuple[float, ...]:
    names = ("ewc.ewc-lambda", "online-ewc.ewc-lambda", "online-ewc.gamma")
    return tuple(find_setting(name).value_in(run.settings) for name in names)


def _point(material: ExperimentData, runs: list[RunResult]) -> list[float]:
    """The last agents' scores on each task, normalised seed by seed with the games of that seed's teachers."""
    store = material.store
    by_seed = []
    for run in runs:
        ranges = [
            game_range(store.stage(digest).document("rows") if store.has(digest) else [])
            for digest in run.record.teachers
        ]
        by_seed.append([min_max(float(f.mean()), *r) for f, r in zip(run.final, ranges, strict=True)])
    return [average_of_known(column) for column in zip(*by_seed, strict=True)]


EXPERIMENT_TABLES: Mapping[str, Callable[[ExperimentData], TablesAndSummary]] = {
    "scores": scores,
    "students": students,
    "importance": importance,
    "overlap": overlap,
    "grid": grid_search,
}
