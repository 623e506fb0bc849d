"""The parts of the reference pages that are written from the code, so that they cannot be out of date.

A page asks for one with a line of its own: `<!-- generated: settings -->`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from reaper.cli.parser import build_parser
from reaper.config.fields import info_of
from reaper.config.overrides import Setting, all_settings
from reaper.config.presets import PRESETS
from reaper.equations import EQUATIONS
from reaper.results import tidy
from reaper.results.continual_world import CONTINUAL_WORLD, WINDOWS
from reaper.results.metrics import METRICS
from reaper.storage import manifests, pack_file, records, store
from reaper.study.conditions import CONDITIONS  # registers all methods, whose fields are settings
from reaper.tasks.atari import EMULATOR_SETTINGS


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; bars inside cells are escaped."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    header = list(header)
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def command_line() -> str:
    """Every command with its arguments."""
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    about = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return "\n\n".join(_command(name, about[name], sub) for name, sub in commands.choices.items())


def _command(name: str, about: str, parser: argparse.ArgumentParser) -> str:
    shown = [action for action in parser._actions if action.dest != "help"]
    rows = [(_argument(action), _help(parser, action)) for action in shown]
    arguments = table(("argument", "meaning"), rows) if rows else ""
    return f"## `reaper {name}`\n\n{about[:1].upper()}{about[1:]}.\n\n{arguments}"


def _argument(action: argparse.Action) -> str:
    if not action.option_strings:
        many = action.nargs in ("+", "*")
        return f"`{action.metavar or action.dest.upper()}{' ...' if many else ''}`"
    takes_value = action.nargs != 0
    placeholder = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    return f"`{action.option_strings[-1]}{f' {placeholder}' if takes_value else ''}`"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return text.replace("<", "&lt;") + (" (required)" if action.required and action.option_strings else "")


def settings() -> str:
    """Every setting by its dotted name, with its meaning and its value in each preset."""
    sections: dict[str, list[Setting]] = {}
    for setting in all_settings():
        sections.setdefault(setting.owner, []).append(setting)
    return "\n\n".join(_section(owner, listed) for owner, listed in sections.items())


def _section(owner: str, listed: list[Setting]) -> str:
    about = (listed[0].kind.__doc__ or "").strip().partition("\n\n")[0]
    rows = [(f"`{s.name}`", _meaning(s), *(_value(s.value_in(preset)) for preset in PRESETS.values())) for s in listed]
    return f"## {owner.replace('_', '-')}\n\n{about}\n\n" + table(("setting", "meaning", *PRESETS), rows)


def _meaning(setting: Setting) -> str:
    info = info_of(setting.field)
    return info.help + (" *(duration)*" if info.duration else "")


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def conditions() -> str:
    """The table of conditions."""
    rows = [
        (f"`{c.name}`", c.objective, c.describe()["retention"]["name"], c.knowledge, c.about)
        for c in CONDITIONS.values()
    ]
    return table(("condition", "objective", "retention", "knowledge", "about"), rows)


def equations() -> str:
    """Which function is which equation of the paper."""
    rows = [
        (f"`{e.label}`", f"`{e.function.__name__}`", f"`src/reaper/{e.file}`", e.summary) for e in EQUATIONS.values()
    ]
    return table(("label", "function", "file", "what it is"), rows)


def metrics() -> str:
    """Every metric with its definition and formula."""
    return table(("metric", "what it is", "formula"), [(m.name, m.definition, m.formula) for m in METRICS.values()])


def emulator() -> str:
    """Everything that ale-py is told about an Atari game."""
    rows = [(f"`{name}`", f"`{value}`", meaning) for name, (value, meaning) in EMULATOR_SETTINGS.items()]
    return table(("argument", "value", "meaning"), rows)


def continual_world() -> str:
    """Continual World's metrics."""
    rows = [(m.name, m.definition, m.formula) for m in CONTINUAL_WORLD.values()]
    return table(("metric", "what it is", "formula"), rows) + f"\n\n{WINDOWS}"


def output_folder() -> str:
    """The tree in the docstring of the store."""
    tree = (store.__doc__ or "").partition("\n\n")[2].strip()
    return f"```\n{tree}\n```"


def format_versions() -> str:
    """The version of every format on disk."""
    versions = {
        "output folder and its records": records.STORE_FORMAT,
        "manifest of a finished stage": manifests.MANIFEST_FORMAT,
        "spec of a stage": manifests.SPEC_FORMAT,
        "checkpoint": manifests.CHECKPOINT_FORMAT,
        "exported memory": manifests.MEMORY_FORMAT,
        "pack": pack_file.PACK_FORMAT,
        "rows of results": tidy.FORMAT,
    }
    return table(("format", "version"), [(name, str(version)) for name, version in versions.items()])


GENERATED: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "settings": settings,
    "conditions": conditions,
    "equations": equations,
    "metrics": metrics,
    "continual world": continual_world,
    "emulator": emulator,
    "output folder": output_folder,
    "format versions": format_versions,
}


def fill_in(markdown: str) -> str:
    """A page with every `<!-- generated: NAME -->` replaced by what the code has to say."""
    for name, write in GENERATED.items():
        marker = f"<!-- generated: {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, write())
    return markdown
