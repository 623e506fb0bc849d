"""Settings in files: only the values that differ from their defaults.

So a setting that is added later, with a default, changes no file and no digest, and an old file means what it meant.
A value that this version does not know is an error, except for the values of methods that are not installed here:
these are kept as they are, since an agent can be loaded without the method that trained it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.fields import types_of
from reaper.config.methods import changed_fields, find_method
from reaper.config.overrides import GROUPS
from reaper.config.settings import Settings
from reaper.errors import UserError


def to_json(settings: Settings) -> dict[str, Any]:
    """Settings as plain JSON values: groups and methods with their fields that do not have the default value."""
    groups = {name: changed_fields(getattr(settings, name)) for name in GROUPS}
    document: dict[str, Any] = {name: values for name, values in groups.items() if values}
    methods = {name: _changed(name, values) for name, values in settings.methods.items()}
    if methods := {name: values for name, values in methods.items() if values}:
        document["methods"] = methods
    if settings.scales:
        document["scales"] = {task: [list(numbers) for numbers in scale] for task, scale in settings.scales.items()}
    return document


def from_json(document: Mapping[str, Any]) -> Settings:
    """The inverse of `to_json`; what is missing has its default value."""
    defaults = Settings()
    groups = {}
    for name, values in document.items():
        if name == "methods":
            groups[name] = {method: _method_values(method, given) for method, given in _mapping(name, values).items()}
        elif name == "scales":
            groups[name] = {str(task): _scale(task, given) for task, given in _mapping(name, values).items()}
        elif name in GROUPS:
            kind = type(getattr(defaults, name))
            groups[name] = kind(**_checked(name, values, types_of(kind)))
        else:
            raise UserError(f"these settings are from another version: {name!r} is not known to this one")
    return Settings(**groups)


def _scale(task: str, given: Any) -> tuple[tuple[float, ...], ...]:
    """Centres and units of a task's observations."""
    parts = given if isinstance(given, list) and len(given) == 2 else [[None], []]
    if not all(isinstance(part, list) and all(type(number) in (int, float) for number in part) for part in parts):
        raise UserError(f"these settings are from another version: the scale of {str(task)[:40]} is no pair of lists")
    return tuple(tuple(float(number) for number in part) for part in parts)


def _changed(method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    kind = find_method(method)
    return dict(values) if kind is None else changed_fields(kind(**values))


def _method_values(method: str, given: Any) -> dict[str, Any]:
    kind = find_method(method)
    return dict(_mapping(method, given)) if kind is None else _checked(method, given, types_of(kind))


def _checked(owner: str, given: Any, types: Mapping[str, Any]) -> dict[str, Any]:
    """Values whose names and types are those of a dataclass."""
    values = dict(_mapping(owner, given))
    for name, value in values.items():
        if name not in types:
            raise UserError(f"these settings are from another version: {owner}.{name} is not known to this one")
        if type(value) is not types[name] and not (types[name] is float and type(value) is int):
            raise UserError(f"these settings are from another version: {owner}.{name} is {str(value)[:40]!r}")
        values[name] = types[name](value)  # 50 for 50.0 is the same setting, and gets the same digest
    return values


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise UserError(f"these settings are from another version: {name} is {str(given)[:40]!r}")
    return given
