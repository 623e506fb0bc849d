"""How a setting is declared: its default, its meaning, its range, and what scales it.

A setting is a field of a frozen dataclass: of a group of `Settings`, or of a method (a retention method, a generator).
What the command line, the checks and the documentation need to know about it is stored in the field's metadata:

    ewc_lambda: float = setting(300.0, "weight of the penalty", minimum=0)
"""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from typing import Any

from reaper.errors import UserError, unknown

_KEY = "reaper.setting"  # of our entry in a field's metadata


@dataclass(frozen=True)
class SettingInfo:
    """What is known about a setting besides its name, type and default."""

    help: str = ""
    minimum: float | None = None
    exclusive: bool = False  # whether the minimum itself is excluded
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    duration: bool = False  # `fraction` scales it
    from_second_task: bool = False  # has no effect on the first long-term memory
    extended: int = 1  # factor in the extended variant


def setting(default: Any, help: str = "", **info: Any) -> Any:
    """A setting with its meaning and, optionally, its range: `minimum`, `exclusive`, `maximum`, `choices`."""
    return field(default=default, metadata={_KEY: SettingInfo(help, **info)})


def positive(default: Any, help: str = "", **info: Any) -> Any:
    """A number above zero."""
    return setting(default, help, minimum=0, exclusive=True, **info)


def probability(default: float, help: str = "", **info: Any) -> Any:
    """A number between zero and one."""
    return setting(default, help, minimum=0, maximum=1, **info)


def duration(default: int, help: str = "", *, exclusive: bool = True, **info: Any) -> Any:
    """A number of steps or items that `fraction` multiplies."""
    return setting(default, help, minimum=0, exclusive=exclusive, duration=True, **info)


def info_of(declared: dataclasses.Field[Any]) -> SettingInfo:
    """Plain dataclass fields, as a plugged-in method may have them, are settings without a range."""
    return declared.metadata.get(_KEY, SettingInfo())


def types_of(kind: type) -> dict[str, Any]:
    """Field name -> type, for a dataclass of settings."""
    hints = typing.get_type_hints(kind)
    return {declared.name: hints[declared.name] for declared in dataclasses.fields(kind)}


def convert(name: str, value: Any, kind: Any) -> Any:
    """A value from a command line or from Python as the type of its field."""
    try:
        if kind is bool and isinstance(value, str):
            return {"true": True, "false": False}[value.lower()]
        number = float(value) if kind in (int, float) else value
        if kind is int and number != int(number):
            raise ValueError
        return kind(number)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"--{name} takes {getattr(kind, '__name__', kind)}, not {value!r}") from None


def check_value(name: str, value: Any, info: SettingInfo) -> None:
    """Raises an error that names the setting and its range if the value is outside it."""
    flag = f"--{name}"
    if info.choices and value not in info.choices:
        raise unknown(flag, value, info.choices)
    if isinstance(value, str | bool):
        return
    if not math.isfinite(value):
        raise UserError(f"{flag} must be a finite number, not {value}")
    if info.minimum is not None and info.maximum is not None:
        if not info.minimum <= value <= info.maximum:
            raise UserError(f"{flag} must lie between {info.minimum} and {info.maximum}, not {value}")
    elif info.minimum is not None and (value < info.minimum or (info.exclusive and value == info.minimum)):
        raise UserError(f"{flag} must be {'above' if info.exclusive else 'at least'} {info.minimum}, not {value}")
    elif info.maximum is not None and value > info.maximum:
        raise UserError(f"{flag} must be at most {info.maximum}, not {value}")
