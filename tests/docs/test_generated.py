"""The reference pages that are written from the code have all of it."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

from doc_pages import ROOT

from reaper.config.overrides import setting_names
from reaper.study.conditions import CONDITIONS


def _generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs/generated.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _filled_in(page: str) -> str:
    return _generated().fill_in((ROOT / "docs" / page).read_text())


def test_every_setting_has_a_row():
    shown = re.findall(r"^\| `([a-z0-9-]+\.[a-z0-9-]+)` \|", _filled_in("reference/settings.md"), flags=re.MULTILINE)
    assert sorted(shown) == sorted(setting_names())


def test_every_command_and_condition_is_listed():
    page = _filled_in("reference/command-line.md")
    assert "## `reaper run`" in page
    assert "`--fraction FRACTION`" in page
    for name in CONDITIONS:
        assert f"| `{name}` |" in page


def test_nothing_is_left_to_fill_in():
    for page in (ROOT / "docs").rglob("*.md"):
        assert "<!-- generated" not in _generated().fill_in(page.read_text()), page
