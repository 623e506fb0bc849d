"""Where our own games show another pattern than the paper's, and what was measured that explains it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from reaper.paper.results import EWC_LAMBDAS, FISHER_OVERLAP, SCRATCH, SINGLE, TASKS, average_ratio
from reaper.report.findings import listed
from reaper.report.reproduction.claims import MARGIN, with_interval
from reaper.report.reproduction.evidence import BySeed, Group, mean_of
from reaper.report.text_table import TextTable, number
from reaper.results.tidy import PERIODIC
from reaper.study.conditions import MAIN

EWC = ("ewc", "online-ewc")


def different(group: Group) -> list[str]:
    """Conditions whose share is far from the paper's."""
    levels = {name: group.levels(name) for name in MAIN}
    return [name for name, own in levels.items() if own and abs(mean_of(own) - average_ratio(name)) > 2 * MARGIN]


def explanations(groups: Sequence[Group], everything: Sequence[Group]) -> list[str]:
    """Markdown paragraphs, one piece of evidence each; `everything` has groups with single settings varied, too."""
    parts: list[str] = []
    for group in groups:
        found = different(group)
        if group.is_atari or not found:
            continue
        gaps = ", ".join(f"`{n}` {mean_of(group.levels(n)):.2f} (paper: {average_ratio(n):.2f})" for n in found)
        parts.append(f"On {group.name} these conditions differ from the paper by more than {2 * MARGIN:.2f}: {gaps}.")
        own = [group, *(g for g in groups if (g.sequence, g.preset) == (group.sequence, group.preset))]
        varied = [other for other in everything if other.overrides and other.sequence == group.sequence]
        evidence = [_first(_overlap(g) for g in own), _first(_lambdas(g) for g in own), _shorter(groups)]
        evidence += [_varied(group, other) for other in varied]
        evidence.append(_first(_generators(group, g) for g in own))
        parts += [f"- {line}" for line in evidence if line]
    return parts


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _varied(group: Group, other: Group) -> str:
    """The same conditions with one setting changed."""
    pairs = [
        f"`{name}` {with_interval(group.levels(name))} becomes {with_interval(other.levels(name))}"
        for name in MAIN
        if group.levels(name) and other.levels(name)
    ]
    return f"**With `{other.overrides}`** (otherwise the same): {'; '.join(pairs)}." if pairs else ""


def _papers(student: str, place: int) -> float:
    """The share of a single-task DQN's score that one of the paper's students reaches."""
    score = SCRATCH[student][place]
    return score.mean / SINGLE[TASKS[place]].mean if score else float("nan")


def _generators(group: Group, other: Group) -> str:
    """DGDMN learns a new task from generated items only, so a task that these teach well costs it nothing."""
    parts = []
    for task in group.tasks[1:]:
        student, agent = other.student_shares("generated", [task], task), group.task_levels("DGDMN", task)
        if student and agent:
            parts.append(f"{group.titles([task])[0]} {mean_of(student):.2f} and {mean_of(agent):.2f}")
    if not parts:
        return ""
    return (
        "**Generators of single games.** What a student learns from generated items alone, and what DGDMN reaches, "
        f"whose long-term network learns new games from such items: {listed(parts)}. The paper's generators teach "
        f"{_papers('gan_boxing', 1):.2f} of Boxing and {_papers('gan_james', 2):.2f} of James Bond (Table "
        "scratch), and its DGDMN loses more."
    )


def _overlap(group: Group) -> str:
    """Weights that tasks share anyway need not be kept apart."""
    pairs = list(combinations(group.tasks, 2))
    values = [mean_of(group.overlaps("RePR", pair)) for pair in pairs if group.overlaps("RePR", pair)]
    if not values:
        return ""
    theirs = list(FISHER_OVERLAP["RePR"].values())
    return (
        f"**Shared weights.** The games' Fisher overlap in RePR's last network is {min(values):.2f} to "
        f"{max(values):.2f}, the paper's {min(theirs):.2f} to {max(theirs):.2f} (Table F-over). This fits EWC's "
        "better results: where games need the same weights in the same way, a penalty on changing them costs less."
    )


def _lambdas(group: Group) -> str:
    """The trade-off that the grid shows: what is kept of the first task against what is learnt of the last."""
    known = [f"ewc lambda={value:g}" for value in EWC_LAMBDAS if group.levels(f"ewc lambda={value:g}")]
    if len(known) < 2:
        return ""
    weak, strong = known[0], known[-1]
    both = [n for n in known if min(mean_of(group.task_levels(n, t)) for t in group.tasks) > 1 - MARGIN]
    meaning = (
        f"{listed(both)} have all games above {1 - MARGIN:.2f}, so the weight of the penalty decides"
        if both
        else f"no lambda has all games above {1 - MARGIN:.2f}, so the penalty itself, not its weight, is the limit"
    )
    first, last = group.tasks[0], group.tasks[-1]
    titles = group.titles([first, last])

    def level(name: str, task: str) -> str:
        return number(mean_of(group.task_levels(name, task)))

    return (
        f"**The grid.** From {weak} to {strong}, what is kept of {titles[0]} goes from {level(weak, first)} to "
        f"{level(strong, first)}, and what is learnt of {titles[1]} from {level(weak, last)} to {level(strong, last)}: "
        f"{meaning}."
    )


def _shorter(groups: Sequence[Group]) -> str:
    """Fewer updates forget less: the same condition on Atari at a fraction of the budget."""
    atari = [group for group in groups if group.is_atari and group.share < 1 and group.shares("ewc")]
    if not atari:
        return ""
    group = atari[0]
    return (
        f"**Shorter training.** On Atari with {group.share:g} of the paper's training, `ewc` reaches "
        f"{mean_of(group.shares('ewc')):.2f} of single-task DQNs, against {average_ratio('ewc'):.2f} in the paper with "
        "all of it. The paper's own short scheme (Fig. policy-only-results) points the same way: EWC holds for a "
        "while, and gives way as training continues."
    )


def decline(groups: Sequence[Group], conditions: Sequence[str] = ("RePR", "reh", "no-reh", *EWC)) -> list[TextTable]:
    """The first task's score at every evaluation after it was learnt: how quickly each condition forgets."""
    tables = []
    for group in groups:
        curves = {name: curve for name in conditions if (curve := _curve(group, name))}
        steps = sorted({step for curve in curves.values() for step in curve})
        if not steps:
            continue
        rows = [(name, *(number(mean_of(curve.get(step, {}))) for step in steps)) for name, curve in curves.items()]
        title = f"{group.titles(group.tasks[:1])[0]} while the other games are learnt ({group.name})"
        notes = [f"Normalised scores by agent steps since the start; means over {_seeds(curves)} seeds."]
        tables.append(TextTable(title, ("condition", *(f"{step:,}" for step in steps)), rows, notes))
    return tables


def _seeds(curves: dict[str, dict[int, BySeed]]) -> str:
    counts = sorted({len(values) for curve in curves.values() for values in curve.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _curve(group: Group, condition: str) -> dict[int, BySeed]:
    found: dict[int, BySeed] = {}
    for row in group.rows:
        later = row["kind"] == PERIODIC and row["num_tasks"] > 1 and row["task"] == group.tasks[0]
        if row["condition"] == condition and later and row["normalised"] is not None:
            found.setdefault(row["agent_steps"], {})[row["seed"]] = row["normalised"]
    return found
