"""Python in the documentation compiles, names what exists, and the examples run."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, Block, blocks

CONTINUES = "<!-- continues -->"  # above a block that needs the one before it
PYTHON = [block for page in PAGES for block in blocks(page) if block.language == "python"]
all_snippets = pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.where)


@all_snippets
def test_snippets_compile_and_name_what_exists(block: Block):
    tree = ast.parse(block.text, block.where)
    modules = {"reaper": importlib.import_module("reaper")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "reaper":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module}.{alias.name}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), f"{node.value.id}.{node.attr}"


@all_snippets
def test_calls_of_reaper_take_the_arguments_given(block: Block):
    """`reaper.run(tasks=...)` and the like: every keyword is one that the function takes."""
    from reaper.study.options import StudyOptions

    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reaper.run":
            given = [keyword.arg for keyword in node.keywords]
            assert set(given) <= set(StudyOptions.__dataclass_fields__), given
