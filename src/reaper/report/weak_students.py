"""Where a network has not taken over what a teacher from elsewhere knows, and what may help."""

from __future__ import annotations

import numpy as np

from reaper.report.scores import ConditionScores, SequenceScores

ENOUGH = 0.9  # of the teacher's level, right after the task was learnt


def weak_students(scores: SequenceScores) -> list[str]:
    """One sentence per condition and task. What was forgotten later does not count here: the tables show that."""
    taught = set(scores.sources)
    found = []
    for condition in scores.complete:
        levels = np.diagonal(condition.matrix)
        weak = {
            title: level
            for title, level in zip(scores.titles, levels, strict=True)
            if title in taught and level < ENOUGH  # NaN, where normalised scores are undefined, is not below
        }
        for title, level in weak.items():
            found.append(
                f"{title}: right after learning it, {condition.name} plays at {100 * max(level, 0):.0f} % of its "
                f"teacher's level. {_advice(condition)}"
            )
    return found


def _advice(condition: ConditionScores) -> str:
    run = condition.complete[0]
    more = "more --long-term.agent-steps"
    if run.condition["knowledge"] == "policy" or run.settings.long_term.targets == "policy":
        return f"It may need {more}."
    return (
        "Q-values that differ little between actions are hard to copy: --long-term.targets policy transfers which "
        f"actions are good instead. Or it needs {more}."
    )
