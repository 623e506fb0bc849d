"""The commands of several runs, as few of them as say the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

RUN = ("reaper", "run")
SEEDS = "--seeds"


@dataclass(frozen=True)
class _Command:
    """Its seeds, and the conditions of `reaper run`, apart from all other words."""

    before: tuple[str, ...]
    conditions: tuple[str, ...]
    options: tuple[str, ...]
    seeds: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> _Command:
        words = shlex.split(text)
        names = _up_to_option(words)
        options, seeds = words[len(names) :], ["0"]  # the default
        if SEEDS in options:
            place = options.index(SEEDS)
            seeds = _up_to_option(options[place + 1 :])
            options = options[:place] + options[place + 1 + len(seeds) :]
        before = RUN if tuple(names[:2]) == RUN else tuple(names)
        return cls(before, tuple(names[len(before) :]), tuple(options), tuple(map(int, seeds)))

    def __str__(self) -> str:
        return shlex.join([*self.before, *self.conditions, *self.options, SEEDS, *map(str, self.seeds)])


def merged_commands(commands: Iterable[str]) -> list[str]:
    """Commands that differ only in their seeds become one, and then runs that differ only in their conditions. What is
    no command line, as a record from elsewhere may hold, comes last and as it is."""
    by_seeds: dict[_Command, _Command] = {}
    unreadable: dict[str, None] = {}
    for text in commands:
        try:
            command = _Command.parse(text)
        except ValueError:  # an open quote, or a seed that is no number
            unreadable[text] = None
            continue
        key = replace(command, seeds=())
        known = by_seeds.setdefault(key, command)
        by_seeds[key] = replace(command, seeds=tuple(sorted({*known.seeds, *command.seeds})))
    alike: dict[_Command, list[_Command]] = {}
    for command in by_seeds.values():
        alike.setdefault(replace(command, conditions=()), []).append(command)
    return [str(replace(key, conditions=_conditions(group))) for key, group in alike.items()] + list(unreadable)


def _conditions(commands: list[_Command]) -> tuple[str, ...]:
    """In the order of the command that has most of them, which is probably a user's."""
    most_first = sorted(commands, key=lambda command: -len(command.conditions))
    return tuple(dict.fromkeys(name for command in most_first for name in command.conditions))


def _up_to_option(words: list[str]) -> list[str]:
    return list(takewhile(lambda word: not word.startswith("--"), words))
