"""The paper's sweeps: the importance of the new game, and the grids of the EWC appendix."""

from __future__ import annotations

from collections.abc import Sequence

from reaper.paper.results import (
    BEST_EWC,
    EWC_LAMBDAS,
    IMPORTANCE,
    MAIN_ALPHAS,
    ONLINE_EWC_GAMMAS,
    ONLINE_EWC_LAMBDAS,
    SINGLE,
    TASKS,
    TITLES,
    Score,
)
from reaper.report.reproduction.claims import MARGIN, with_interval
from reaper.report.reproduction.evidence import Group, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import TextTable, number
from reaper.report.text_table import score as score_text
from reaper.study.analyses.grid import choose

# -- Table lscale


def lscale(groups: Sequence[Group]) -> Section:
    sweeps = [(base, f"{base} alpha={alpha:g}") for base in IMPORTANCE for alpha in IMPORTANCE[base]]
    found = [group for group in groups if len(group.tasks) == 2 and any(group.after(name) for _, name in sweeps)]
    whole = [
        group
        for group in groups
        if len(group.tasks) > 2 and any(group.after(f"RePR alpha={alpha:g}") for alpha in MAIN_ALPHAS)
    ]
    return Section(
        "Table lscale: how much the new game counts",
        "importance",
        "Road Runner, then Boxing, with `PR` and RePR at four values of alpha; one seed. `PR` learns Boxing only at "
        "0.95, where it forgets Road Runner; RePR learns it at every alpha. The main text adds that RePR does about "
        "equally well at 0.35, 0.55 and 0.75 on three games.",
        [_papers_alphas(), *map(_our_alphas, found), *map(_main_alphas, whole)],
        " ".join([*map(_alpha_verdict, found), *map(_main_alpha_verdict, whole)]) or "Not run yet.",
    )


def _papers_alphas() -> TextTable:
    alphas = list(IMPORTANCE["RePR"])
    rows = [
        (f"{alpha:g}", *(_with_share(IMPORTANCE[base][alpha][j], TASKS[j]) for base in ("PR", "RePR") for j in (0, 1)))
        for alpha in alphas
    ]
    header = ("alpha", *(f"{base}: {title}" for base in ("PR", "RePR") for title in TITLES[:2]))
    notes = ["In brackets: divided by the score of a single-task DQN."]
    return TextTable("The paper's two games", header, rows, notes)


def _with_share(cell: Score, task: str) -> str:
    return f"{score_text(*cell, 0)} ({cell.mean / SINGLE[task].mean:.2f})"


def _our_alphas(group: Group) -> TextTable:
    rows = []
    for alpha in IMPORTANCE["RePR"]:
        names = [f"{base} alpha={alpha:g}" for base in ("PR", "RePR")]
        rows.append((f"{alpha:g}", *(with_interval(group.task_levels(n, t)) for n in names for t in group.tasks)))
    header = ("alpha", *(f"{base}: {title}" for base in ("PR", "RePR") for title in group.titles(group.tasks)))
    notes = ["Normalised: 0 is random play, 1 is a DQN per game. 95 % intervals over seeds by Student's t."]
    return TextTable(f"Our two games ({group.name})", header, rows, notes)


def _alpha_verdict(group: Group) -> str:
    old, new = group.tasks
    titles = group.titles(group.tasks)
    lowest, highest = min(IMPORTANCE["PR"]), max(IMPORTANCE["PR"])
    level = {
        (base, alpha, task): mean_of(group.task_levels(f"{base} alpha={alpha:g}", task))
        for base in ("PR", "RePR")
        for alpha in (lowest, highest)
        for task in group.tasks
    }
    interferes = level["PR", lowest, new] < level["RePR", lowest, new] - MARGIN
    return (
        f"{group.name}: at alpha {lowest:g} PR learns {titles[1]} to {number(level['PR', lowest, new])} and RePR to "
        f"{number(level['RePR', lowest, new])}, {'as' if interferes else 'unlike'} in the paper "
        f"{'worse without a second memory' if interferes else 'where PR is far behind'}; at {highest:g} they keep "
        f"{number(level['PR', highest, old])} and {number(level['RePR', highest, old])} of {titles[0]}."
    )


def _main_alphas(group: Group) -> TextTable:
    rows = [
        (f"{alpha:g}", *(number(mean_of(group.task_levels(name, task))) for task in group.tasks), with_interval(levels))
        for alpha in MAIN_ALPHAS
        if (levels := group.levels(name := f"RePR alpha={alpha:g}"))
    ]
    title = f"RePR at the alphas of the main text ({group.name})"
    return TextTable(title, ("alpha", *group.titles(group.tasks), "average"), rows)


def _main_alpha_verdict(group: Group) -> str:
    levels = [mean_of(group.levels(f"RePR alpha={alpha:g}")) for alpha in MAIN_ALPHAS]
    known = [level for level in levels if level == level]
    similar = max(known) - min(known) <= MARGIN
    return (
        f"RePR's averages at the three alphas lie between {min(known):.2f} and {max(known):.2f}: "
        f"{'very similar, as in the paper' if similar else 'not similar, unlike in the paper'}."
    )


# -- the grids of the EWC appendix


def points(base: str) -> list[str]:
    """The points of a grid, by the names of their conditions."""
    if base == "ewc":
        return [f"ewc lambda={value:g}" for value in EWC_LAMBDAS]
    return [f"online-ewc lambda={s:g} gamma={d:g}" for d in ONLINE_EWC_GAMMAS for s in ONLINE_EWC_LAMBDAS]


def grids(groups: Sequence[Group]) -> Section:
    found = [group for group in groups if any(group.grid_levels(name) for base in BEST_EWC for name in points(base))]
    return Section(
        "Grids of the EWC appendix",
        "ewc-search",
        "The paper prints the searched values and the best: lambda 300 for EWC (of 50 to 400), lambda 75 and gamma "
        "0.99 for online EWC (of 25 to 175, and 0.95 or 0.99).",
        [_grid(group, base) for group in found for base in BEST_EWC],
        " ".join(map(_grid_verdict, found)) or "Not run yet.",
    )


def _grid(group: Group, base: str) -> TextTable:
    names = [name for name in points(base) if group.grid_levels(name)]
    averages = {name: mean_of(group.grid_levels(name)) for name in names}
    best, theirs = choose(averages), _papers_best(base)
    rows = []
    for name in names:
        marks = [*(["chosen"] if name == best else []), *(["the paper's"] if name == theirs else [])]
        levels = [number(mean_of(group.task_levels(name, task))) for task in group.tasks]
        rows.append((name, *levels, with_interval(group.grid_levels(name)), ", ".join(marks)))
    header = ("point", *group.titles(group.tasks), "average, min-max", "")
    notes = [
        "Games: normalised scores. Average: scores between the worst and the best episode of each game's teacher, as "
        "in the paper's appendix; the best average is chosen."
    ]
    return TextTable(f"{base} ({group.name})", header, rows, notes)


def _papers_best(base: str) -> str:
    return base + "".join(f" {name}={value:g}" for name, value in BEST_EWC[base].items())


def _grid_verdict(group: Group) -> str:
    parts = []
    for base in BEST_EWC:
        averages = {name: mean_of(group.grid_levels(name)) for name in points(base) if group.grid_levels(name)}
        best, theirs = choose(averages), _papers_best(base)
        if best is None:
            continue
        own, papers = group.grid_levels(best), group.grid_levels(theirs)
        more = {seed: own[seed] - papers[seed] for seed in own.keys() & papers.keys()}
        compared = f"{with_interval(more, signed=True)} compared with the paper's {theirs}"
        gained = "the paper's own point" if best == theirs else compared
        parts.append(f"{best} is best ({gained}; normalised average {number(mean_of(group.levels(best)))})")
    return f"{group.name}: {' and '.join(parts)}. Where an interval includes zero, other seeds may choose otherwise."
