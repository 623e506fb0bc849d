"""Python in the documentation compiles and names what exists, and the README and the guides run."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import TINY
from doc_pages import PAGES, ROOT, Block, blocks

import reaper
from reaper.engines import ENGINES
from reaper.generators import GENERATORS
from reaper.learning.teachers import TEACHERS
from reaper.results.metrics import METRICS
from reaper.retention import RETENTIONS
from reaper.study.conditions import CONDITIONS
from reaper.study.options import StudyOptions
from reaper.tasks.arcade import ARCADE
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import TASKS
from reaper.tasks.task import EnvOptions
from reaper.tasks.task_env import TaskEnv

PYTHON = [block for page in PAGES for block in blocks(page) if block.language == "python"]
RUN = ["README.md", "docs/guides/environment.md", "docs/guides/method.md"]

SHRUNK = {
    **TINY,
    "short-term.agent-steps": 80,
    "short-term.best-window": 40,
    "long-term.agent-steps": 80,
    "long-term.best-window": 40,
    "evaluation.interval": 80,
    "evaluation.episodes": 1,
}

all_snippets = pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.where)


@all_snippets
def test_names_exist(block: Block):
    for node in ast.walk(ast.parse(block.text, block.where)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "reaper":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module}.{alias.name}"
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "reaper":
            assert hasattr(reaper, node.attr), f"reaper.{node.attr}"


@all_snippets
def test_options_of_a_run_exist(block: Block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reaper.run":
            assert {keyword.arg for keyword in node.keywords} <= set(StudyOptions.__dataclass_fields__)


@pytest.mark.parametrize("name", RUN)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registries: None):
    """Runs the Python of a page from top to bottom, with studies shrunk to a few seconds each."""
    run, started = reaper.run, []

    def run_tiny(conditions: Any, **options: Any) -> Any:
        started.append(conditions)
        overrides = {**SHRUNK, **options.pop("overrides", {})}
        options["tasks"] = options.get("tasks", "arcade-3").replace("arcade-3", "catch,dodge")
        return run(conditions, **options, overrides=overrides, device="cpu", quiet=True, tensorboard=False)

    monkeypatch.setattr(reaper, "run", run_tiny)
    monkeypatch.chdir(tmp_path)
    example = ModuleType("example")
    catch = ARCADE["catch"].open(EnvOptions(1, ObservationSpec((1, 16, 16))))
    example.observation, example.env = np.zeros((2, 16, 16), np.uint8), TaskEnv(catch)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "example", example)
    for block in blocks(ROOT / name):
        if block.language == "python":
            exec(compile(block.text, block.where, "exec", dont_inherit=True), vars(example))
    assert started


@pytest.fixture
def own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an example registers is forgotten afterwards."""
    for registry in (CONDITIONS, ENGINES, GENERATORS, RETENTIONS, TASKS, TEACHERS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)
