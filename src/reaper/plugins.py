"""Registries of named things that other packages may add to, by a call or by an entry point."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, MutableMapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from reaper.errors import UserError, unknown

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Names to things; entry points of the group are looked at when a name is not found or all are listed."""

    def __init__(self, what: str, group: str) -> None:
        self.what, self.group = what, group
        self._things: dict[str, T] = {}
        self._points_read = False

    def _read_points(self) -> None:
        if self._points_read:
            return
        self._points_read = True
        for point in entry_points(group=self.group):
            if point.name not in self._things:
                self._things[point.name] = point.load()

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self._read_points()
        if name not in self._things:
            raise unknown(self.what, name, self._things)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        self._read_points()
        return name in self._things

    def __setitem__(self, name: str, thing: T) -> None:
        if name in self._things and self._things[name] is not thing:
            raise UserError(f"{self.what} {name!r} is already registered")
        self._things[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._read_points()
        return iter(self._things)

    def __len__(self) -> int:
        self._read_points()
        return len(self._things)

    def describe(self, thing: Any) -> dict[str, Any]:
        """A registered dataclass's instance as plain values."""
        name = next((n for n, t in self.items() if t is type(thing)), None)
        if name is None:
            raise UserError(f"{self.what} {type(thing).__name__} is not registered; call the register function first")
        return {"name": name, **dataclasses.asdict(thing)}

    def build(self, description: dict[str, Any]) -> Any:
        """The inverse of `describe`."""
        options = {key: value for key, value in description.items() if key != "name"}
        factory: Any = self[description["name"]]
        return factory(**options)
