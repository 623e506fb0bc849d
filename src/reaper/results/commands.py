"""The commands that filled an output folder, as few of them as say the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

PREFIX = ["reaper", "run"]
SEEDS = "--seeds"


@dataclass(frozen=True)
class _Run:
    """`reaper run CONDITIONS --seeds SEEDS`, and all other options as they were given."""

    conditions: tuple[str, ...]
    seeds: tuple[str, ...]
    others: tuple[str, ...]

    def __str__(self) -> str:
        seeds = [SEEDS, *self.seeds] if self.seeds else []
        return shlex.join([*PREFIX, *self.conditions, *self.others, *seeds])


def merged_commands(commands: Iterable[str]) -> list[str]:
    """Runs of the same conditions become one with all their seeds, then runs with the same seeds become one with all
    their conditions. Other commands, and options, stay as they are."""
    found = list(dict.fromkeys(commands))
    parsed = [run for run in map(_parse, found) if run]
    parsed.sort(key=lambda run: -len(run.conditions))  # the longest list has the order that a user gave
    by_conditions: dict[tuple, _Run] = {}
    for run in parsed:
        same = by_conditions.setdefault((run.conditions, run.others), run)
        seeds = _union(same.seeds, run.seeds)
        by_conditions[run.conditions, run.others] = replace(same, seeds=tuple(sorted(seeds, key=int)))
    by_seeds: dict[tuple, _Run] = {}
    for run in by_conditions.values():
        same = by_seeds.setdefault((run.seeds, run.others), run)
        by_seeds[run.seeds, run.others] = replace(same, conditions=_union(same.conditions, run.conditions))
    return [*map(str, by_seeds.values()), *(command for command in found if _parse(command) is None)]


def _parse(command: str) -> _Run | None:
    """None for anything else than `reaper run`."""
    words = shlex.split(command)
    if words[:2] != PREFIX:
        return None
    conditions, options = _until_option(words[2:])
    seeds: Sequence[str] = ()
    if SEEDS in options:
        place = options.index(SEEDS)
        seeds, after = _until_option(options[place + 1 :])
        options = [*options[:place], *after]
    return _Run(tuple(conditions), tuple(seeds), tuple(options))


def _until_option(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before the first option, and the rest."""
    place = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    return words[:place], words[place:]


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))
