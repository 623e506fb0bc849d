"""Registries of named things that other packages may add to, by a call or by an entry point."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from reaper.errors import UserError, unknown

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Names to things. Entry points of the group are read once, when a name is not found or all names are listed."""

    def __init__(self, what: str, group: str) -> None:
        self.what, self.group = what, group
        self._things: dict[str, T] = {}
        self._entry_points_read = False

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True
        for point in entry_points(group=self.group):
            if point.name not in self._things:
                self.add(point.name, point.load())

    def add(self, name: str, thing: T) -> None:
        """Registers a thing; a name can be taken only once."""
        if name in self._things and self._things[name] is not thing:
            raise UserError(f"{self.what} {name!r} is already registered")
        self._things[name] = thing

    def has_loaded(self, name: str) -> bool:
        """Whether a name is registered, without reading entry points."""
        return name in self._things

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self._read_entry_points()
        if name not in self._things:
            raise unknown(self.what, name, self._things)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            self._read_entry_points()
        return name in self._things

    def __setitem__(self, name: str, thing: T) -> None:
        self.add(name, thing)

    def __delitem__(self, name: str) -> None:
        del self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter(self._things)

    def __len__(self) -> int:
        self._read_entry_points()
        return len(self._things)
