"""Scales: the tables of numbers a run starts from, and how `fraction` and the user's overrides change them."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any

from reaper.config import settings as paper
from reaper.config.settings import Settings
from reaper.errors import UserError, unknown

PAPER = Settings()

# Small games of our own on a laptop's CPU: found by measuring (docs/deviations.md says what was tried).
ARCADE = Settings(
    observation=paper.ObservationSettings(frame_size=16, frame_stack=2),
    network=paper.NetworkSettings(initialisation="he"),
    optimiser=paper.OptimiserSettings(name="adam", learning_rate=5e-4, epsilon=1e-5),
    training=paper.TrainingSettings(
        num_envs=32, replay_capacity=32_000, learning_starts=1_600, exploration_steps=12_000
    ),
    short_term=paper.ShortTermSettings(
        agent_steps=30_000, discount=0.97, target_update_interval=1_000, best_window=7_500
    ),
    long_term=paper.LongTermSettings(agent_steps=30_000, alpha=0.35, late_alpha=0.2, late_from=4, best_window=5_000),
    generator=paper.GeneratorSettings(latent_size=64, steps=6_000, batch_size=32, pseudo_items=20_000),
    rehearsal=paper.RehearsalSettings(capacity=20_000, limited_capacity=1_175),
    evaluation=paper.EvaluationSettings(interval=10_000, min_interval=1_000),
)

PRESETS: dict[str, Settings] = {"paper": PAPER, "arcade": ARCADE}


def main(settings: Settings) -> Settings:
    """The main experiment: the scale as it stands."""
    return settings


def extended(settings: Settings) -> Settings:
    """The six-game experiment: doubled networks, slower and longer long-term learning, twice the GAN steps."""
    return replace(
        settings,
        network=replace(settings.network, width=2 * settings.network.width),
        long_term=replace(
            settings.long_term,
            agent_steps=2 * settings.long_term.agent_steps,
            alpha=0.05,
            late_alpha=0.01,
            late_from=5,  # after the fourth task
        ),
        generator=replace(settings.generator, width=2 * settings.generator.width, steps=2 * settings.generator.steps),
    )


def short(settings: Settings) -> Settings:
    """The short training scheme of the EWC appendix: 5m instead of 20m long-term frames."""
    frames = max(settings.long_term.agent_steps // 4, settings.training.num_envs)
    return replace(settings, long_term=replace(settings.long_term, agent_steps=frames))


# What has no say before there is something to retain: the first long-term memory is the same whatever these are.
FROM_THE_SECOND_TASK = ("long-term.alpha", "ewc.ewc_lambda", "ewc.online-lambda", "ewc.online-gamma")

VARIANTS: dict[str, Callable[[Settings], Settings]] = {"main": main, "extended": extended, "short": short}


def at_fraction(settings: Settings, fraction: float) -> Settings:
    """Scales every duration, and nothing else; evaluations stay at least `min_interval` frames apart."""
    if not (math.isfinite(fraction) and 0 < fraction <= 1):
        raise UserError(f"--fraction must be above 0 and at most 1, not {fraction}")

    def scaled(part: Any) -> Any:
        changes = {
            f.name: max(1, round(getattr(part, f.name) * fraction)) for f in fields(part) if f.metadata.get("duration")
        }
        return replace(part, **changes)

    parts = {f.name: scaled(getattr(settings, f.name)) for f in fields(settings)}
    evaluation = parts["evaluation"]
    parts["evaluation"] = replace(evaluation, interval=max(evaluation.interval, evaluation.min_interval))
    return Settings(**parts)


def setting_names() -> list[str]:
    """Every setting by its dotted name, as on the command line: `short-term.discount`."""
    return [
        f"{part.name}.{f.name}".replace("_", "-")
        for part in fields(Settings)
        for f in fields(getattr(PAPER, part.name))
    ]


def with_overrides(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Replaces settings by dotted name; values may be text, as they come from a command line."""
    for name, value in overrides.items():
        if name.replace("_", "-") not in setting_names():
            raise unknown("setting", name, setting_names())
        part_name, field_name = name.replace("-", "_").split(".")
        part = getattr(settings, part_name)
        kind = typing.get_type_hints(type(part))[field_name]
        part = replace(part, **{field_name: _convert(name, value, kind)})
        settings = replace(settings, **{part_name: part})
    return settings


def _convert(name: str, value: Any, kind: type) -> Any:
    try:
        number = float(value) if kind in (int, float) else value
        if kind is int and number != int(number):
            raise ValueError
        return kind(number)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"--{name} takes {kind.__name__}, not {value!r}") from None


_PROBABILITIES = {
    "long_term.alpha",
    "long_term.late_alpha",
    "short_term.discount",
    "training.initial_epsilon",
    "training.final_epsilon",
    "evaluation.epsilon",
    "ewc.online_gamma",
    "optimiser.decay",
    "generator.beta1",
    "generator.beta2",
}
_MAY_BE_ZERO = {
    "ewc.ewc_lambda",
    "ewc.online_lambda",
    "generator.steps",
    "generator.drift",
    "generator.noise",
    "generator.gradient_penalty",
    "training.learning_starts",
}


def check(settings: Settings) -> None:
    """Refuses numbers that make no sense, naming the setting and its range."""
    for part in fields(Settings):
        values = getattr(settings, part.name)
        for f in fields(values):
            name, value = f"{part.name}.{f.name}", getattr(values, f.name)
            flag = "--" + name.replace("_", "-")
            if isinstance(value, str):
                continue
            if not math.isfinite(value):
                raise UserError(f"{flag} must be a finite number, not {value}")
            if name in _PROBABILITIES:
                if not 0 <= value <= 1:
                    raise UserError(f"{flag} must lie between 0 and 1, not {value}")
            elif value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
                raise UserError(f"{flag} must be {'at least' if name in _MAY_BE_ZERO else 'above'} 0, not {value}")
    for what, chosen, known in (
        ("optimiser", settings.optimiser.name, ("rmsprop", "adam")),
        ("initialisation", settings.network.initialisation, ("paper", "he")),
    ):
        if chosen not in known:
            raise unknown(what, chosen, known)
    least = (settings.observation.frame_stack + 4) * settings.training.num_envs
    if settings.training.replay_capacity < least:
        raise UserError(
            f"--training.replay-capacity must be at least {least} for {settings.training.num_envs} games at once"
        )


def as_dict(settings: Any) -> dict[str, Any]:
    """Settings as plain JSON values."""
    return asdict(settings)


def from_dict(values: Mapping[str, Any]) -> Settings:
    """The inverse of `as_dict`."""

    def build(kind: Any, given: Any, name: str) -> Any:
        if not is_dataclass(kind):
            if type(given) is not kind and not (kind is float and type(given) is int):
                raise UserError(f"these settings are of another version: {name[1:]} is {str(given)[:40]!r}")
            return given
        hints = typing.get_type_hints(kind)
        given = given if isinstance(given, Mapping) else {}
        return typing.cast(type, kind)(
            **{f.name: build(hints[f.name], given.get(f.name), f"{name}.{f.name}") for f in dataclasses.fields(kind)}
        )

    return build(Settings, values, "")


def differences(settings: Settings, base: Settings) -> dict[str, tuple[Any, Any]]:
    """Settings that differ from `base`: dotted name -> (value, value in base)."""
    return {
        f"{part.name}.{f.name}": (
            getattr(getattr(settings, part.name), f.name),
            getattr(getattr(base, part.name), f.name),
        )
        for part in fields(Settings)
        for f in fields(getattr(base, part.name))
        if getattr(getattr(settings, part.name), f.name) != getattr(getattr(base, part.name), f.name)
    }
