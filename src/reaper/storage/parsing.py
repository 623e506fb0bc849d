"""Checks for values that were read from JSON, and the base of all typed records.

Files may come from anywhere, so `from_json` accepts any value: what is not such a record is a `DamagedArtefact` at the
path it was read from. Names and digests become paths, so they are checked before anyone uses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from reaper.errors import DamagedArtefact

DIGEST = re.compile(r"[0-9a-f]{20}")  # of a stage's spec

T = TypeVar("T")
R = TypeVar("R", bound="Record")
SparseSettings = Mapping[str, Mapping[str, Any]]  # {group: {field: value}}, only what differs from the defaults


class Record:
    """What all records share: input of any shape becomes a record or a `DamagedArtefact`."""

    what: ClassVar[str]  # how an error names the record

    @classmethod
    def from_json(cls: type[R], value: Any, path: Path) -> R:
        try:
            return cls.parse(mapping(value))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise DamagedArtefact(path, f"is not {cls.what}") from None

    @classmethod
    def parse(cls: type[R], value: dict[str, Any]) -> R:
        """The record in a JSON object; raises ValueError, KeyError or TypeError where there is none."""
        raise NotImplementedError


# -- single values; whatever is refused is a ValueError


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def digest(value: Any) -> str:
    if not DIGEST.fullmatch(text(value)):
        raise ValueError(f"{value!r} is not a digest")
    return value


def many(check: Callable[[Any], T], values: Any) -> tuple[T, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{values!r} is not a list")
    return tuple(check(value) for value in values)


def settings_in(value: Any) -> dict[str, dict[str, Any]]:
    return {text(group): mapping(values) for group, values in mapping(value).items()}


def require(condition: bool, why: str) -> None:
    if not condition:
        raise ValueError(why)
