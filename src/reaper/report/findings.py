"""The sentences of a report, all computed from its scores: headline, level of the final agents, and caveats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reaper.report.last_weights import last_weights
from reaper.report.scores import ConditionScores, SequenceScores
from reaper.report.text_table import number
from reaper.report.weak_students import weak_students

# Conditions are chosen by how they retain earlier tasks, not by name: the paper's method, and doing nothing.
FEATURED, BASELINE = "pseudo-rehearsal", "none"
MOST_NAMED = 4  # conditions in one sentence; of more, only the featured one, the best and the worst


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def percent(share: float) -> str:
    return f"{max(share, 0.0) * 100:.0f} %"


def headline(sequences: Sequence[SequenceScores]) -> str:
    """How much the featured method (or else the best one) retained, and how much is left without any method."""
    if not sequences:
        return "There are no runs in this folder yet."
    retained = _retained(sequences)
    if not retained:
        return _why_unknown(sequences)
    conditions = [condition for scores in sequences for condition in scores.complete]
    retention = {condition.name: condition.retention for condition in conditions}
    methods = {name: share for name, share in retained.items() if retention[name] != BASELINE}
    baselines = [share for name, share in retained.items() if retention[name] == BASELINE]
    if not methods:
        return f"Without a retention method, {percent(baselines[0])} of what was learnt is left."
    featured = [name for name in methods if retention[name] == FEATURED]
    name = featured[0] if featured else max(methods, key=lambda name: methods[name])
    sentence = f"{name} retained {percent(methods[name])} of what it learnt"
    sentence += f"; without a retention method, {percent(baselines[0])} is left" if baselines else ""
    return f"{sentence}{_not_counting([task for scores in sequences for task in left_out(scores)])}."


def _retained(sequences: Sequence[SequenceScores]) -> dict[str, float]:
    """Condition -> share retained, over all seeds and sequences."""
    shares: dict[str, list[float]] = {}
    for scores in sequences:
        for condition in scores.complete:
            if values := condition.metric("retained"):
                shares.setdefault(condition.name, []).extend(values)
    return {name: float(np.mean(values)) for name, values in shares.items()}


def _why_unknown(sequences: Sequence[SequenceScores]) -> str:
    """The headline where retention cannot be measured."""
    conditions = [condition for scores in sequences for condition in scores.conditions]
    if not conditions:
        return f"One DQN per task: {_single_scores(sequences[0])}."
    if not any(condition.complete for condition in conditions):
        furthest = max(conditions, key=lambda condition: condition.runs[0].learnt)
        return f"Not finished yet: {furthest.name} has learnt {progress(furthest)}."
    if weak := list(dict.fromkeys(title for scores in sequences for title in scores.undefined)):
        return f"Too little was learnt on {listed(weak)} to measure how much was retained."
    if missing := [scores for scores in sequences if scores.without_reference]:
        return f"Continued from {missing[0].continued_from}; the score table shows how well it plays now."
    if all(len(scores.tasks) < 2 for scores in sequences):
        return f"One task so far, so nothing could be forgotten: {_single_scores(sequences[0])}."
    return "Too little was learnt to measure how much was retained."


def _single_scores(scores: SequenceScores) -> str:
    """The score of each task's single-task DQN, next to random play."""
    single, random = scores.references[0], scores.references[-1]
    known = [
        f"{title} {number(own.mean(), 1)}" + (f" (random play {number(chance.mean(), 1)})" if len(chance) else "")
        for title, own, chance in zip(scores.titles, single.episodes, random.episodes, strict=True)
        if len(own)
    ]
    return listed(known) or "not evaluated yet"


def progress(condition: ConditionScores) -> str:
    learnt = max(run.learnt for run in condition.runs)
    return f"{learnt} of {len(condition.runs[0].tasks)} tasks"


def final_level(scores: SequenceScores) -> str:
    """How well the final agents play; of many, only the worst, the best and the featured one."""
    levels = [(c.name, float(np.mean(values))) for c in scores.complete if (values := c.metric("average"))]
    if not levels:
        return ""
    if len(levels) > MOST_NAMED:
        worst, *_, best = sorted(levels, key=lambda entry: entry[1])
        featured = next((c.name for c in scores.complete if c.retention == FEATURED), None)
        levels = [entry for entry in levels if entry in (worst, best) or entry[0] == featured]
    parts = [f"{name} at {percent(level)}" for name, level in levels]
    tasks = "the task" if len(scores.tasks) == 1 else f"all {len(scores.tasks)} tasks"
    whose = "each task's teacher" if len(scores.sources) == len(scores.tasks) else "a DQN trained on each task alone"
    level = f"of the level of {whose}{_not_counting(left_out(scores))}"
    return f"At the end, one network plays {tasks}: {listed(parts)} {level}."


def left_out(scores: SequenceScores) -> list[str]:
    """The tasks whose normalised scores are undefined, with the seeds where this is not so for all."""
    seeds = sorted({run.seed for run in scores.runs})
    return [
        title if own == seeds else f"{title} (seed{'s' if len(own) > 1 else ''} {listed([str(seed) for seed in own])})"
        for title, own in scores.undefined.items()
    ]


def _not_counting(tasks: Sequence[str]) -> str:
    return f", not counting {listed(list(dict.fromkeys(tasks)))}" if tasks else ""


def undefined_note(scores: SequenceScores) -> list[str]:
    """Which normalised scores are undefined, and why; nothing where all are defined."""
    tasks = left_out(scores)
    if not tasks:
        return []
    return [
        f"On {listed(tasks)} the single-task DQN is no better than random play (the 95 % intervals of their means "
        "overlap): normalised scores are undefined there, and averages, forgetting and transfer leave the task out."
    ]


def caveats(scores: SequenceScores, all_conditions: Sequence[str]) -> list[str]:
    """What a reader should know before trusting the numbers of a sequence."""
    found = []
    for condition in scores.conditions:
        missing = len(condition.runs) - len(condition.complete)
        if missing == len(condition.runs):
            found.append(f"{condition.name} is not finished: {progress(condition)} learnt so far.")
        elif missing:
            found.append(f"{condition.name}: {missing} of {len(condition.runs)} seeds not finished, and not counted.")
    present = {condition.name for condition in scores.conditions}
    if absent := [name for name in all_conditions if name not in present]:
        found.append(f"Not run on this sequence: {listed(absent)}.")
    if lacking := scores.without_reference:
        found.append(
            f"Continued from {scores.continued_from}. There is no single-task DQN of {listed(lacking)} here, so scores "
            f"on it are not normalised; `reaper run single --tasks {','.join(lacking)}` with the same --out, --seeds "
            "and settings adds it."
        )
    if sources := scores.sources:
        taught = listed([f"{title} by {source}" for title, source in sources.items()])
        found.append(f"Taught from elsewhere: {taught}. What is called a single-task DQN is this teacher there.")
        found += weak_students(scores)
    found += undefined_note(scores)
    found += last_weights(scores)
    if scores.complete and max(len(condition.complete) for condition in scores.complete) == 1:
        found.append("One seed: differences between conditions may be due to chance.")
    if scores.conditions and len(scores.tasks) == 1:
        found.append("A single task: there is nothing to forget, and no transfer to measure.")
    return found
