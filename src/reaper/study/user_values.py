"""What the user should know about the settings that were given explicitly: they hold in every condition, which may make
conditions equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from typing import Any

from reaper.study.chains import Chain
from reaper.study.conditions import Condition


def user_value_notices(chains: Many[Chain], user_values: Mapping[str, Any]) -> list[str]:
    """At most one line about equal conditions, and one about a weight that changes in the middle of a sequence."""
    groups = ["; ".join(" = ".join(names) for names in equal_conditions(chains))]
    equal = [f"with these settings some conditions train the same agent: {group}" for group in groups if group]
    return [*equal, *_late_alpha(chains, user_values)]


def equal_conditions(chains: Iterable[Chain]) -> list[list[str]]:
    """Groups of conditions whose long-term memories are the same stages."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for chain in chains:
        digests = tuple(stage.digest for stage in chain.memories)
        names = groups.setdefault(digests, [])
        if digests and chain.condition.name not in names:
            names.append(chain.condition.name)
    return [list(names) for names in dict.fromkeys(map(tuple, groups.values())) if len(names) > 1]  # once for all seeds


def _late_alpha(chains: Iterable[Chain], user_values: Mapping[str, Any]) -> list[str]:
    """`long-term.alpha` is not the weight of late tasks, which a user who gives it alone may not know."""
    if "long-term.alpha" not in user_values or "long-term.late-alpha" in user_values:
        return []
    for chain in chains:
        long_term, tasks = chain.settings.long_term, len(chain.sequence.tasks)
        if chain.memories and tasks >= long_term.late_from and long_term.late_alpha != long_term.alpha:
            return [
                f"--long-term.alpha {long_term.alpha:g} does not hold from task {long_term.late_from} on: "
                f"{chain.condition.name} has --long-term.late-alpha {long_term.late_alpha:g}"
            ]
    return []


def sweep_notices(points: Many[Condition], user_values: Mapping[str, Any]) -> list[str]:
    """One line where the user gives a value to a setting that an experiment varies."""
    fixed = [name for name in user_values if any(name in point.labels for point in points)]
    points = [point for point in points if any(name in point.labels for name in fixed)]
    if not points:
        return []
    flags, names = ", ".join(f"--{name}" for name in fixed), list(dict.fromkeys(point.name for point in points))
    left = list(dict.fromkeys(point.with_user_values(user_values).name for point in points))
    count = f"of {len(names)} points {len(left)} are left"
    return [f"{flags} fixes what this experiment varies: {count} ({', '.join(left)})"]
