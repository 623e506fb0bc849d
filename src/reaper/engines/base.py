"""What an engine is, and the registry of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

from reaper.config.fields import check_value, convert, info_of, types_of
from reaper.engines.resources import Resources
from reaper.engines.signals import Stop
from reaper.errors import UserError, unknown
from reaper.plugins import Registry
from reaper.progress import Event
from reaper.storage.store import Store
from reaper.study.stages import Stage

Listener = Callable[[Stage, Event], None]  # called with every event of every stage


class Engine(ABC):
    """Runs stages, each as soon as its parents are finished.

    An engine is a frozen dataclass, and its fields are its options: `--NAME.option` on the command line,
    `engine_options={"option": ...}` in Python. Fields are declared like settings (config/fields.py), with a help text
    and a range.
    """

    remote: ClassVar[bool] = False  # whether stages run on other machines, whose memory and devices are unknown here

    def check(self, share: bool) -> None:  # noqa: B027 - most engines can run anywhere
        """Raises `UserError` if the engine cannot run; called before anything is written. `share`: other processes may
        work on the same store."""

    @abstractmethod
    def run(
        self, stages: Sequence[Stage], *, store: Store, resources: Resources, stop: Stop, listener: Listener
    ) -> None:
        """Runs every stage that is not in the store yet. Parents come before their children in `stages`. Returns when
        all are finished; raises `Stopped` as soon as `stop()` is true and every running stage has saved its state."""


ENGINES: Registry[type[Any]] = Registry("engine", "reaper.engines")


def register_engine(name: str, engine: type[Engine]) -> None:
    """Makes an engine known by name; `--engine NAME` chooses it."""
    ENGINES[name] = engine


def build_engine(name: str, options: Mapping[str, Any]) -> Engine:
    """The engine of that name with its own options."""
    kind = ENGINES[name]
    known = {f.name: f for f in fields(kind)}
    values = {}
    for option, value in options.items():
        field_name, dotted = option.replace("-", "_"), f"{name}.{option}".replace("_", "-")
        if not known:
            raise UserError(f"engine {name} has no options, so --{dotted} means nothing")
        if field_name not in known:
            raise unknown(f"option of engine {name}", option, known)
        values[field_name] = convert(dotted, value, types_of(kind)[field_name])
        check_value(dotted, values[field_name], info_of(known[field_name]))
    return kind(**values)


def split_engine_options(dotted: Mapping[str, Any], engine: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates `--long-term.alpha 0.5` (a setting) from `--ray.store fetch` (an option of an engine)."""
    overrides, options = {}, {}
    for name, value in dotted.items():
        prefix, _, option = name.partition(".")
        if prefix not in ENGINES:
            overrides[name] = value
        elif prefix != engine:
            raise UserError(f"--{name} is for --engine {prefix}")
        else:
            options[option] = value
    return overrides, options
