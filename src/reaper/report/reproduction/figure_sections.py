"""The paper's figures of scores over a sequence of games: no numbers are printed there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reaper.report.reproduction.claims import MARGIN, with_interval
from reaper.report.reproduction.course_figure import ALT, average_so_far
from reaper.report.reproduction.evidence import OURS, Group, having, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import TextTable, number
from reaper.study.conditions import MAIN

COURSE_IMAGE = "images/main-results.png"
CAPTION = (
    "*Normalised scores, averaged over the tasks learnt so far and over seeds; dashed: a DQN per task, dotted: random "
    "play.*"
)
MOST_COLUMNS = 4  # tasks in a table with a column for each pair of tasks
EXTENDED = ("reh-extend", "RePR-extend", "reh-extend-policy", "RePR-extend-policy")
POLICY_SHORT = ("ewc-policy-short", "online-ewc-policy-short", "RePR-policy-short")

# -- Fig. main-results


def main_results(groups: Sequence[Group]) -> Section:
    found = having(groups, MAIN)
    tables = [_course(group, (*MAIN, *OURS)) for group in found]
    return Section(
        "Fig. main-results: scores over the sequence",
        "main",
        "Curves of the nine conditions while they learn; the paper prints no numbers. In its words, `no-reh` severely "
        "forgets, RePR is very close to `reh`, EWC retains better and learns less than online EWC, `PR` and `DGDMN` "
        "learn the new game less well, and `reh-limit` forgets the first game.",
        tables,
        " ".join(_course_verdict(group) for group in found) or "Not run yet.",
        [f"![{ALT}]({COURSE_IMAGE})", CAPTION] if found else [],
    )


def _course(group: Group, conditions: Sequence[str]) -> TextTable:
    """Normalised scores after each task on the tasks learnt so far: each, or where there are many, their average."""
    if len(group.tasks) > MOST_COLUMNS:
        return _averages(group, conditions)
    titles = dict(zip(group.tasks, group.titles(group.tasks), strict=True))
    columns = [(k + 1, task) for k in range(len(group.tasks)) for task in group.tasks[: k + 1]]
    rows = [
        (name, *(number(mean_of(group.task_levels(name, task, k))) for k, task in columns))
        for name in conditions
        if group.after(name)
    ]
    header = ("condition", *(f"after {k}: {titles[task]}" for k, task in columns))
    notes = ["Normalised scores after one task, two tasks and so on; means over seeds."]
    return TextTable(f"Scores over the sequence ({group.name})", header, rows, notes)


def _averages(group: Group, conditions: Sequence[str]) -> TextTable:
    after = range(1, len(group.tasks) + 1)
    rows = [
        (name, *(number(average_so_far(group, name, k)) for k in after)) for name in conditions if group.after(name)
    ]
    header = ("condition", *(f"after {title}" for title in group.titles(group.tasks)))
    notes = ["Averages over the tasks learnt so far of normalised scores; means over seeds."]
    return TextTable(f"Average over the sequence ({group.name})", header, rows, notes)


def _course_verdict(group: Group) -> str:
    """What each condition keeps of the first task and learns of the last."""
    first, last = group.tasks[0], group.tasks[-1]
    names = [name for name in MAIN if group.after(name)]
    kept = {name: mean_of(group.task_levels(name, first)) for name in names}
    learnt = {name: mean_of(group.task_levels(name, last)) for name in names}
    title_first, title_last = group.titles([first, last])
    forgot = [name for name in names if kept[name] < 1 - 2 * MARGIN]
    missed = [name for name in names if learnt[name] < 1 - 2 * MARGIN]
    return (
        f"{group.name}: of {title_first} {_named(forgot, kept)} keep less than 0.80; {title_last} is learnt to less "
        f"than 0.80 by {_named(missed, learnt)}."
    )


def _named(names: Sequence[str], values: dict[str, float]) -> str:
    return ", ".join(f"{name} ({number(values[name])})" for name in names) or "no condition"


# -- Fig. extend-results and Fig. policy-only-results


def extend_results(groups: Sequence[Group]) -> Section:
    found = having(groups, EXTENDED)
    return Section(
        "Fig. extend-results: six games",
        "extended",
        "Six games with larger networks; one seed and no printed numbers. In the paper's words, `RePR-extend` "
        "gradually forgets, while `reh-extend` and both conditions that retain only the policy keep considerable "
        "knowledge.",
        [table for group in found for table in (_levels(group, EXTENDED), _kept(group, EXTENDED))],
        " ".join(map(_extended_verdict, found)) or "Not run yet.",
    )


def _levels(group: Group, conditions: Sequence[str]) -> TextTable:
    rows = [
        (name, *(number(mean_of(group.task_levels(name, task))) for task in group.tasks), _average(group, name))
        for name in conditions
        if group.after(name)
    ]
    header = ("condition", *group.titles(group.tasks), "average")
    return TextTable(f"Final scores, normalised ({group.name})", header, rows)


def _average(group: Group, name: str) -> str:
    return with_interval(group.levels(name))


def _kept(group: Group, conditions: Sequence[str]) -> TextTable:
    """Each task just after it was learnt and at the end; the first agent is the first teacher."""
    rows = []
    for name in conditions:
        if group.after(name):
            cells = []
            for k, task in enumerate(group.tasks):
                then, now = mean_of(group.task_levels(name, task, k + 1)), mean_of(group.task_levels(name, task))
                cells.append(f"{number(then)} → {number(now)}")
            rows.append((name, *cells))
    title = f"Just learnt, and at the end ({group.name})"
    return TextTable(title, ("condition", *group.titles(group.tasks)), rows, ["Normalised; means over seeds."])


def _extended_verdict(group: Group) -> str:
    levels = {name: mean_of(group.levels(name)) for name in EXTENDED if group.levels(name)}
    text = ", ".join(f"{name} {value:.2f}" for name, value in levels.items())
    if "RePR-extend" not in levels or len(levels) < 2:
        return f"{group.name}: incomplete ({text})."
    rest = [value for name, value in levels.items() if name != "RePR-extend"]
    lowest = levels["RePR-extend"] < min(rest)
    gap = min(rest) - levels["RePR-extend"]
    word = f"RePR-extend is the lowest, by {gap:.2f}, as in the paper" if lowest else "RePR-extend is not the lowest"
    return f"{group.name}: {word} ({text})."


def policy_only_results(groups: Sequence[Group]) -> Section:
    found = having(groups, POLICY_SHORT)
    return Section(
        "Fig. policy-only-results: only the policy, a quarter of the training",
        "policy-short",
        "One seed and no printed numbers. In the paper's words, EWC, online EWC and RePR perform similarly under this "
        "scheme, and retain.",
        [_levels(group, POLICY_SHORT) for group in found],
        " ".join(map(_policy_verdict, found)) or "Not run yet.",
    )


def _policy_verdict(group: Group) -> str:
    levels = {name: group.levels(name) for name in POLICY_SHORT if group.levels(name)}
    if len(levels) < len(POLICY_SHORT):
        return f"{group.name}: incomplete."
    ours = levels["RePR-policy-short"]
    parts, similar = [], True
    for name in POLICY_SHORT[:2]:
        gaps = {seed: ours[seed] - levels[name][seed] for seed in ours.keys() & levels[name].keys()}
        similar = similar and abs(float(np.mean(list(gaps.values())))) <= MARGIN
        parts.append(f"RePR minus {name.removesuffix('-policy-short')} {with_interval(gaps, signed=True)}")
    word = (
        "the three are within 0.10 of each other on average, as in the paper"
        if similar
        else ("unlike in the paper, they are not within 0.10 of each other")
    )
    return f"{group.name}: {word} ({'; '.join(parts)})."
