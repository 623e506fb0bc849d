"""The order of conditions in tables and figures."""

from __future__ import annotations

from reaper.study.conditions import CONDITIONS


def rank_of(condition: str) -> tuple[int, str]:
    """Sorts conditions in the order of their table; unknown ones come last."""
    names = list(CONDITIONS)
    return (names.index(condition) if condition in names else len(names), condition)
