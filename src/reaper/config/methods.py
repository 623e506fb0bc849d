"""Methods: frozen dataclasses whose fields are their hyper-parameters, registered by name.

Built-in and plugged-in methods are treated alike: a field is a setting named after its method, `ewc.ewc-lambda` or
`stay-close.strength`, with the checks and the help text it was declared with (fields.py). Whoever defines a family of
methods makes a `MethodRegistry`; this module then knows its methods without importing them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from reaper.config.settings import Settings
from reaper.errors import UserError
from reaper.plugins import Registry

M = TypeVar("M")

_REGISTRIES: list[MethodRegistry[Any]] = []


class MethodRegistry(Registry[type[M]]):
    """Names to methods of one family; entry points of `group` may add to it."""

    def __init__(self, what: str, group: str) -> None:
        super().__init__(what, group)
        _REGISTRIES.append(self)

    def add(self, name: str, thing: type[M]) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise UserError(f"{self.what} {name!r}: use lower-case letters, digits and hyphens, as in 'stay-close'")
        if name.replace("-", "_") in _GROUPS:
            raise UserError(f"{self.what} {name!r} would hide the settings {name}.*; choose another name")
        if other := next((r for r in _REGISTRIES if r is not self and r.has_loaded(name)), None):
            raise UserError(f"{self.what} {name!r}: there is a {other.what} of that name already")
        if not (isinstance(thing, type) and dataclasses.is_dataclass(thing)):
            raise UserError(f"{self.what} {name!r} must be a dataclass; its fields are its hyper-parameters")
        for declared in dataclasses.fields(thing):
            if declared.default is dataclasses.MISSING:
                raise UserError(f"{self.what} {name!r}: {declared.name} needs a default value")
        super().add(name, thing)

    def name_of(self, method: M) -> str:
        """The name under which a method's class is registered."""
        name = next((name for name, kind in self.items() if kind is type(method)), None)
        if name is None:
            raise UserError(f"{self.what} {type(method).__name__} is not registered; call the register function first")
        return name

    def configure(self, name: str, settings: Settings) -> M:
        """The method with the values that the settings give it."""
        return self[name](**settings.methods.get(name, {}))

    def describe(self, method: M) -> dict[str, Any]:
        """A method as plain values: its name, and the fields that do not have their default value."""
        return {"name": self.name_of(method), **changed_fields(method)}


_GROUPS = frozenset(declared.name for declared in dataclasses.fields(Settings))


def changed_fields(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass that do not have their default value."""
    return {
        declared.name: value
        for declared in dataclasses.fields(instance)
        if (value := getattr(instance, declared.name)) != declared.default
    }


def all_methods() -> Iterator[tuple[str, type]]:
    """Every registered method, of all families."""
    for registry in _REGISTRIES:
        yield from registry.items()


def find_method(name: str) -> type | None:
    """The method of that name, whatever its family; None if it is not known here."""
    return next((registry[name] for registry in _REGISTRIES if name in registry), None)


def method_value(settings: Settings, method: str, declared: dataclasses.Field[Any]) -> Any:
    """The value of a method's field: as the settings give it, or its default."""
    return settings.methods.get(method, {}).get(declared.name, declared.default)


def with_method_values(settings: Settings, method: str, values: Mapping[str, Any]) -> Settings:
    """Replaces hyper-parameters of one method; values that equal their default are not stored."""
    kind = find_method(method)
    defaults = {declared.name: declared.default for declared in dataclasses.fields(kind)} if kind else {}
    merged = {**settings.methods.get(method, {}), **values}
    changed = {name: value for name, value in merged.items() if value != defaults.get(name, dataclasses.MISSING)}
    methods = {name: given for name, given in settings.methods.items() if name != method}
    return dataclasses.replace(settings, methods={**methods, **({method: changed} if changed else {})})
