"""What a report says in words, all of it computed: one sentence on what happened, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reaper.report.score_tables import number
from reaper.report.scores import ConditionScores, SequenceScores

# By how they retain, not by name: the method this software is about, and doing nothing.
FEATURED, BASELINE = "pseudo-rehearsal", "none"
MOST_NAMED = 4  # conditions in one sentence; of more, the featured one, the best and the worst


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def percent(share: float) -> str:
    return f"{max(share, 0.0) * 100:.0f} %"


def headline(sequences: Sequence[SequenceScores]) -> str:
    """One sentence: how much was kept with the featured method (or else the best one), and how much without any."""
    if not sequences:
        return "There are no runs in this folder yet."
    kept = _kept(sequences)
    if not kept:
        return _without_result(sequences)
    conditions = [condition for scores in sequences for condition in scores.complete]
    retention = {condition.name: condition.retention for condition in conditions}
    retaining = {name: share for name, share in kept.items() if retention[name] != BASELINE}
    without = {name: share for name, share in kept.items() if retention[name] == BASELINE}
    loss = [f"{percent(share)} is left" for share in without.values()]
    if not retaining:
        return f"With nothing done against forgetting, {loss[0]} of what was learnt."
    featured = [name for name in retaining if retention[name] == FEATURED]
    name = featured[0] if featured else max(retaining, key=lambda name: retaining[name])
    sentence = f"{name} kept {percent(retaining[name])} of what it learnt"
    return f"{sentence}; with nothing done against forgetting, {loss[0]}." if loss else f"{sentence}."


def _kept(sequences: Sequence[SequenceScores]) -> dict[str, float]:
    """Condition -> share kept, over all seeds and sequences in which every task was clearly learnt alone."""
    shares: dict[str, list[float]] = {}
    for scores in sequences:
        for condition in () if scores.hardly_learnt else scores.complete:
            if values := condition.metric("retained"):
                shares.setdefault(condition.name, []).extend(values)
    return {name: float(np.mean(values)) for name, values in shares.items()}


def _without_result(sequences: Sequence[SequenceScores]) -> str:
    """Why nothing can be said about forgetting."""
    conditions = [condition for scores in sequences for condition in scores.conditions]
    if not conditions:
        return f"One DQN a task: {_alone(sequences[0])}."
    if not any(condition.complete for condition in conditions):
        best = max(conditions, key=lambda condition: condition.runs[0].learnt)
        return f"Not finished yet: {best.name} has learnt {progress(best)}."
    if weak := list(dict.fromkeys(title for scores in sequences for title in scores.hardly_learnt)):
        return f"Too little was learnt on {listed(weak)} to say how much was kept."
    if missing := [scores for scores in sequences if scores.without_reference]:
        return f"Learnt on from {missing[0].continued_from}; how it plays now stands in the score table."
    if all(len(scores.tasks) < 2 for scores in sequences):
        return f"One task so far, so nothing could be forgotten: {_alone(sequences[0])}."
    return "Too little was learnt to say how much was kept."


def _alone(scores: SequenceScores) -> str:
    """What each task's own DQN scores."""
    single, random = scores.references[0], scores.references[-1]
    known = [
        f"{title} {number(own.mean(), 1)}" + (f" (random play {number(by_chance.mean(), 1)})" if len(by_chance) else "")
        for title, own, by_chance in zip(scores.titles, single.games, random.games, strict=True)
        if len(own)
    ]
    return listed(known) or "not tested yet"


def progress(condition: ConditionScores) -> str:
    learnt = max(run.learnt for run in condition.runs)
    return f"{learnt} of {len(condition.runs[0].tasks)} tasks"


def final_level(scores: SequenceScores) -> str:
    """A second sentence: how well the last agents play; of many, the worst, the best and the featured one."""
    levels = [(c.name, float(np.mean(values))) for c in scores.complete if (values := c.metric("average"))]
    if not levels or scores.hardly_learnt:
        return ""
    if len(levels) > MOST_NAMED:
        worst, *_, best = sorted(levels, key=lambda entry: entry[1])
        featured = next((c.name for c in scores.complete if c.retention == FEATURED), None)
        levels = [entry for entry in levels if entry in (worst, best) or entry[0] == featured]
    parts = [f"{name} at {percent(level)}" for name, level in levels]
    tasks = "the task" if len(scores.tasks) == 1 else f"all {len(scores.tasks)} tasks"
    return f"At the end, one network plays {tasks}: {listed(parts)} of the level of a DQN trained on each task alone."


def caveats(scores: SequenceScores, all_conditions: Sequence[str]) -> list[str]:
    """What a reader should know before believing the numbers of a sequence."""
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
            f"Learnt on from {scores.continued_from}. No DQN of its own was trained here on {listed(lacking)}, so "
            f"nothing is normalised there; `reaper run single --tasks {','.join(lacking)}` with the same --out, "
            "--seeds and settings adds it."
        )
    if scores.hardly_learnt:
        found.append(
            f"On {listed(scores.hardly_learnt)} the DQN trained on it alone is hardly better than random play, so "
            "normalised scores there mean little, or nothing at all where it is no better."
        )
    if scores.complete and max(len(condition.complete) for condition in scores.complete) == 1:
        found.append("One seed: differences between conditions may be chance.")
    if scores.conditions and len(scores.tasks) == 1:
        found.append("A single task: there is nothing to forget, and no transfer to measure.")
    return found
