"""Every command that the documentation shows can be typed."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, commands, in_backticks

from reaper.cli.parser import build_parser, known_flags, take_dotted
from reaper.config.overrides import at_fraction, check, setting_names, with_overrides
from reaper.config.presets import PAPER
from reaper.engines import ENGINES
from reaper.engines.base import build_engine, split_engine_options
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import SEQUENCES, find_sequence

PARSER = build_parser()
TAKE_SETTINGS = ("run", "consolidate", "evaluate", "experiment")
EXAMPLES = ("--stay-close.strength", "--sequential.greeting")  # of plugins in docs/guides/method.md
PLACEHOLDERS = ("...", "ANOTHER-TASK")


def _ids(found: list[tuple[str, list[str]]]) -> list[str]:
    return [f"{where} {' '.join(words)}"[:100] for where, words in found]


def _given(commands: list[tuple[str, list[str]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("where", "words"), commands, ids=_ids(commands))


@_given(commands("reaper"))
def test_reaper_commands_are_understood(where: str, words: list[str]):
    rest, dotted = take_dotted(words, TAKE_SETTINGS, PARSER)
    arguments = PARSER.parse_args(rest)
    engine = getattr(arguments, "engine", "local")
    overrides, engine_options = split_engine_options(dotted, engine)
    build_engine(engine, engine_options)
    settings = with_overrides(PAPER, overrides)
    check(at_fraction(settings, getattr(arguments, "fraction", 1.0)))
    for name in getattr(arguments, "conditions", []):
        assert name == "main" or name in CONDITIONS
    tasks = getattr(arguments, "tasks", None)
    if tasks and tasks not in (*PLACEHOLDERS, *SEQUENCES):  # opening a known sequence may need an extra
        find_sequence(tasks)


@_given(commands("make"))
def test_make_targets_exist(where: str, words: list[str]):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert set(words) <= set(targets)


@_given(commands("python"))
def test_scripts_exist_and_know_their_options(where: str, words: list[str]):
    script = ROOT / words[0]
    assert script.is_file()
    known = (
        "".join(path.read_text() for path in script.parent.glob("*.py"))
        + (ROOT / "src/reaper/cli/parser.py").read_text()
    )
    for option in (word for word in words if re.match(r"--[a-z]", word)):
        assert f'"{option}"' in known or option.removeprefix("--") in setting_names()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_in_the_text_exist(page: Path):
    """`reaper run RePR --fraction 0.1`, `--workers 2`, `long-term.alpha`, `make docs` and the like, in backticks."""
    for quoted in in_backticks(page):
        words = quoted.split()
        if words[0] == "make" and len(words) == 2:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), quoted
        if words[0] == "reaper" and len(words) > 1 and words[1].islower():
            assert words[1] in _command_names(), quoted
            known = {*known_flags(PARSER, words[1]), *_settings(words[1])}
            assert {word for word in words if word.startswith("--")} <= known, quoted
        if re.fullmatch(r"--[a-z][a-z-]*\.[a-z-]+( .*)?", quoted):
            assert words[0] in _settings("run"), quoted


def _command_names() -> list[str]:
    return list(next(action for action in PARSER._actions if action.dest == "command").choices or ())


def _settings(command: str) -> set[str]:
    if command not in TAKE_SETTINGS:
        return set()
    engine_options = [f"{name}.{f.name}".replace("_", "-") for name, kind in ENGINES.items() for f in fields(kind)]
    return {*EXAMPLES, *(f"--{name}" for name in (*setting_names(), *engine_options))}
