"""Changing settings: by `fraction`, and by dotted names such as `short-term.discount` or `ewc.ewc-lambda`.

The part before the dot is a group of `Settings` or a registered method, built in or plugged in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any

from reaper.config.fields import check_value, convert, info_of, types_of
from reaper.config.methods import all_methods, find_method, method_value, with_method_values
from reaper.config.presets import PAPER, PRESETS
from reaper.config.settings import Settings
from reaper.errors import UserError, unknown

GROUPS = tuple(declared.name for declared in fields(Settings) if declared.name not in ("methods", "scales"))


@dataclass(frozen=True)
class Setting:
    """One setting: the group or method it belongs to, and its field there."""

    owner: str  # a group, as an attribute of `Settings`, or a method's registered name
    kind: type  # the dataclass that declares it
    field: Field[Any]

    @property
    def name(self) -> str:
        """Dotted, as on the command line."""
        return f"{self.owner}.{self.field.name}".replace("_", "-")

    @property
    def type(self) -> Any:
        return types_of(self.kind)[self.field.name]

    def value_in(self, settings: Settings) -> Any:
        if self.owner in GROUPS:
            return getattr(getattr(settings, self.owner), self.field.name)
        return method_value(settings, self.owner, self.field)

    def set(self, settings: Settings, value: Any) -> Settings:
        if self.owner in GROUPS:
            group = replace(getattr(settings, self.owner), **{self.field.name: value})
            return replace(settings, **{self.owner: group})
        return with_method_values(settings, self.owner, {self.field.name: value})


def all_settings() -> Iterator[Setting]:
    """Every setting: of the groups, then of the registered methods."""
    owners = [(name, type(getattr(PAPER, name))) for name in GROUPS]
    for owner, kind in (*owners, *all_methods()):
        for declared in fields(kind):
            yield Setting(owner, kind, declared)


def setting_names() -> list[str]:
    """Every setting by its dotted name."""
    return [setting.name for setting in all_settings()]


def find_setting(name: str) -> Setting:
    """A setting by its dotted name, with hyphens or underscores."""
    dotted = name.replace("_", "-")
    owner, _, _ = dotted.partition(".")
    if owner.replace("-", "_") not in GROUPS:
        find_method(owner)  # reads the entry points, which may add it
    found = next((setting for setting in all_settings() if setting.name == dotted), None)
    if found is None:
        raise unknown("setting", name, setting_names())
    return found


def parse_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted name, in its one spelling -> value of the setting's type; values may be text from a command line."""
    found = ((find_setting(name), name, value) for name, value in overrides.items())
    return {setting.name: convert(name, value, setting.type) for setting, name, value in found}


def with_overrides(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Replaces settings by dotted name; values may be text, as they come from a command line."""
    for name, value in parse_overrides(overrides).items():
        settings = find_setting(name).set(settings, value)
    return settings


def at_fraction(settings: Settings, fraction: float) -> Settings:
    """Scales every duration, and nothing else; evaluations stay at least `min_interval` agent steps apart.

    A duration of zero stays zero: it means that another setting decides, or that there is none.
    """
    for setting in all_settings():
        if info_of(setting.field).duration and (value := setting.value_in(settings)):
            settings = setting.set(settings, max(1, round(value * fraction)))
    evaluation = settings.evaluation
    return replace(settings, evaluation=replace(evaluation, interval=max(evaluation.interval, evaluation.min_interval)))


def reset_from_second_task(settings: Settings) -> Settings:
    """Resets the settings that have no effect on the first long-term memory, so that runs that differ in nothing else
    share it."""
    for setting in all_settings():
        if info_of(setting.field).from_second_task:
            settings = setting.set(settings, setting.field.default)
    return settings


def check(settings: Settings) -> None:
    """Refuses numbers that make no sense, naming the setting and its range."""
    for setting in all_settings():
        check_value(setting.name, setting.value_in(settings), info_of(setting.field))
    training = settings.training
    minimum = (settings.observation.frame_stack + settings.short_term.n_step + 3) * training.num_envs
    if training.replay_capacity < minimum:
        raise UserError(f"--training.replay-capacity must be at least {minimum} for {training.num_envs} environments")


def differences(settings: Settings, base: Settings) -> dict[str, tuple[Any, Any]]:
    """Settings that differ from `base`: dotted name -> (value, value in base)."""
    pairs = ((setting.name, (setting.value_in(settings), setting.value_in(base))) for setting in all_settings())
    return {name: (here, there) for name, (here, there) in pairs if here != there}


@dataclass(frozen=True)
class Description:
    """A setting as documentation lists it."""

    name: str
    type: str
    defaults: Mapping[str, Any]  # preset -> value
    help: str


def compare_presets() -> list[Description]:
    """The settings that differ between presets."""
    return [setting for setting in describe_settings() if len(set(map(str, setting.defaults.values()))) > 1]


def describe_settings() -> list[Description]:
    """Every setting with its type, its value in each preset, and its meaning."""
    return [
        Description(
            setting.name,
            getattr(setting.type, "__name__", str(setting.type)),
            {preset: setting.value_in(settings) for preset, settings in PRESETS.items()},
            info_of(setting.field).help,
        )
        for setting in all_settings()
    ]
