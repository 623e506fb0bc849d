"""The paper's further tables: students, importance of the new task, overlap, and the grids of the EWC appendix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from reaper.paper.results import (
    BEST_EWC,
    EWC_LAMBDAS,
    FISHER_OVERLAP,
    IMPORTANCE,
    MAIN_ALPHAS,
    ONLINE_EWC_GAMMAS,
    ONLINE_EWC_LAMBDAS,
    SCORES,
    SCRATCH,
    SINGLE,
    TASKS,
    TITLES,
    Score,
)
from reaper.report.findings import listed
from reaper.report.reproduction.claims import MARGIN, with_interval
from reaper.report.reproduction.evidence import Group, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import TextTable, number
from reaper.report.text_table import score as score_text
from reaper.study.analyses.grid import average_of_known, choose

ITEMS = ("real", "generated")

# -- Table scratch and Fig. real-fake-ims


def scratch(groups: Sequence[Group]) -> Section:
    found = [group for group in groups if _shares(group)]
    return Section(
        "Table scratch: students trained from scratch",
        "item-quality",
        "New networks learn from real or from generated items alone; one seed. Generated items of one game teach it "
        "less well than real ones, and those of all three teach next to nothing, yet they suffice to retain.",
        [_papers_students(), *map(_our_students, found)],
        " ".join(map(_students_verdict, found)) or "Not run yet.",
    )


def _papers_students() -> TextTable:
    """The paper's scores, and the same divided by the teacher's: a DQN per game, or RePR's last network."""
    rows = []
    for name, cells in SCRATCH.items():
        teachers = SCORES["RePR"].scores if name.endswith("3T") else [SINGLE[task] for task in TASKS]
        pairs = [(cell, teacher) for cell, teacher in zip(cells, teachers, strict=True) if cell]
        share = sum(cell.mean / teacher.mean for cell, teacher in pairs) / len(pairs)
        rows.append((name, *(score_text(*cell, 0) if cell else "" for cell in cells), f"{share:.2f}"))
    notes = ["Share: score divided by the teacher's in Table score-table, averaged over the games."]
    return TextTable("The paper's students", ("trained on", *TITLES, "share of teacher"), rows, notes)


def _cases(group: Group) -> list[list[str]]:
    return [*([task] for task in group.tasks), group.tasks]


def _shares(group: Group) -> dict[tuple[str, int], float]:
    """(items, place of the case) -> the average share of the teacher's score."""
    found = {}
    for items in ITEMS:
        for place, tasks in enumerate(_cases(group)):
            values = [mean_of(group.student_shares(items, tasks, task)) for task in tasks]
            if any(value == value for value in values):
                found[items, place] = average_of_known(values)
    return found


def _our_students(group: Group) -> TextTable:
    rows = []
    for place, tasks in enumerate(_cases(group)):
        title = f"all {len(tasks)}" if len(tasks) > 1 or len(group.tasks) == 1 else group.titles(tasks)[0]
        for items in ITEMS:
            cells = [with_interval(group.student_shares(items, tasks, t)) if t in tasks else "" for t in group.tasks]
            rows.append((f"{items}, {title}", *cells, number(_shares(group).get((items, place), float("nan")))))
    notes = ["0 is random play, 1 is the student's teacher. 95 % intervals over seeds by Student's t."]
    header = ("trained on", *group.titles(group.tasks), "average")
    return TextTable(f"Our students, as shares of their teachers ({group.label})", header, rows, notes)


def _students_verdict(group: Group) -> str:
    shares, last = _shares(group), len(group.tasks)
    alone = [average_of_known([shares.get((items, k), float("nan")) for k in range(last)]) for items in ITEMS]
    together = [shares.get((items, last), float("nan")) for items in ITEMS]
    agrees = alone[1] < alone[0] - 0.05
    gap = together[0] - together[1]
    return (
        f"{group.label}: of one game, generated items teach {number(alone[1])} of the teacher's score and real ones "
        f"{number(alone[0])}, {'less, as in the paper' if agrees else 'hardly less, unlike in the paper'}; of all "
        f"games at once {number(together[1])} against {number(together[0])}, "
        f"{'the same collapse as in the paper' if gap > 0.3 else 'a smaller loss than in the paper'}."
    )


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
    return TextTable(f"Our two games ({group.label})", header, rows, notes)


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
        f"{group.label}: at alpha {lowest:g} PR learns {titles[1]} to {number(level['PR', lowest, new])} and RePR to "
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
    title = f"RePR at the alphas of the main text ({group.label})"
    return TextTable(title, ("alpha", *group.titles(group.tasks), "average"), rows)


def _main_alpha_verdict(group: Group) -> str:
    levels = [mean_of(group.levels(f"RePR alpha={alpha:g}")) for alpha in MAIN_ALPHAS]
    known = [level for level in levels if level == level]
    similar = max(known) - min(known) <= MARGIN
    return (
        f"RePR's averages at the three alphas lie between {min(known):.2f} and {max(known):.2f}: "
        f"{'very similar, as in the paper' if similar else 'not similar, unlike in the paper'}."
    )


# -- Table F-over


def fisher_overlap(groups: Sequence[Group]) -> Section:
    found = [group for group in groups if any(group.overlaps("RePR", p) for p in combinations(group.tasks, 2))]
    return Section(
        "Table F-over: Fisher overlap",
        "overlap",
        "How far two games use the same weights of RePR's last network, 0 to 1; one seed. Road Runner and Boxing "
        "overlap most in either order.",
        [_papers_overlap(), *map(_our_overlap, found)],
        " ".join(map(_overlap_verdict, found)) or "Not run yet.",
    )


def _papers_overlap() -> TextTable:
    titles, pairs = dict(zip(TASKS, TITLES, strict=True)), list(combinations(TASKS, 2))
    rows = [(name, *(f"{values[pair]:.3f}" for pair in pairs)) for name, values in FISHER_OVERLAP.items()]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    return TextTable("The paper's overlap", header, rows)


def _our_overlap(group: Group) -> TextTable:
    titles, pairs = dict(zip(group.tasks, group.titles(group.tasks), strict=True)), list(combinations(group.tasks, 2))
    rows = [(name, *(with_interval(group.overlaps(name, p), 3) for p in pairs)) for name in FISHER_OVERLAP]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    return TextTable(f"Our overlap ({group.label})", header, rows, ["95 % intervals over seeds by Student's t."])


def _overlap_verdict(group: Group) -> str:
    pairs = list(combinations(group.tasks, 2))
    most = []
    for name in FISHER_OVERLAP:
        values = {pair: mean_of(group.overlaps(name, pair)) for pair in pairs if group.overlaps(name, pair)}
        most += [max(values, key=lambda pair: values[pair])] if values else []
    everything = [mean_of(group.overlaps(name, p)) for name in FISHER_OVERLAP for p in pairs if group.overlaps(name, p)]
    same = len(most) == len(FISHER_OVERLAP) and len(set(most)) == 1
    what = (
        f"{listed(group.titles(most[0]))} overlap most in either order, a stable pair as in the paper"
        if same
        else ("which pair overlaps most depends on the order, unlike in the paper")
    )
    theirs = [value for values in FISHER_OVERLAP.values() for value in values.values()]
    return (
        f"{group.label}: {what}; values are {min(everything):.2f} to {max(everything):.2f} (paper: "
        f"{min(theirs):.2f} to {max(theirs):.2f})."
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
    return TextTable(f"{base} ({group.label})", header, rows, notes)


def _papers_best(base: str) -> str:
    return base + "".join(f" {name}={value:g}" for name, value in BEST_EWC[base].items())


def _grid_verdict(group: Group) -> str:
    parts = []
    for base in BEST_EWC:
        averages = {name: mean_of(group.grid_levels(name)) for name in points(base) if group.grid_levels(name)}
        best, theirs = choose(averages), _papers_best(base)
        if best is None:
            continue
        loss = averages[best] - averages.get(theirs, float("nan"))
        gained = "the paper's own point" if best == theirs else f"{number(loss)} better than the paper's {theirs}"
        parts.append(f"{best} is best ({gained}; normalised average {number(mean_of(group.levels(best)))})")
    return f"{group.label}: {' and '.join(parts)}."
