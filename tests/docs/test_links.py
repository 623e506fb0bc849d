"""Every link, and every path of the repository that the documentation names, leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, in_backticks, prose

PACKAGE = ROOT / "src/reaper"  # paths may be given below it, too: `learning/trainer.py`
FOLDERS = ("src", "tests", "docs", "benchmarks")
PLACEHOLDER = r"\b[A-Z]{3,}\b"  # as in tests/unit/PACKAGE
LONGEST_LINE = 160

ALL = [*PAGES, ROOT / "CHANGELOG.md"]
GENERATED = ("results", "zoo", "reproduction.md")  # not by hand: tables, one line per row
WRITTEN = [page for page in ALL if page.name == "index.md" or not {page.parent.name, page.name} & {*GENERATED}]
all_pages = pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))


@all_pages
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r'(?:\]\(|src=")([^)\s"]+)', prose(page)):
        if not re.match(r"(https?|mailto):|#", target):
            assert (page.parent / target.split("#")[0]).exists(), target


@all_pages
def test_paths_in_backticks_exist(page: Path):
    for quoted in in_backticks(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", quoted) and not re.search(PLACEHOLDER, quoted):
            assert (ROOT / quoted).exists(), quoted
        if re.fullmatch(r"\w+/[\w/]*(\.py)?", quoted) and (PACKAGE / quoted.split("/")[0]).is_dir():
            assert (PACKAGE / quoted).exists(), quoted


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_can_be_read_in_an_editor(page: Path):
    long = [number for number, line in enumerate(page.read_text().splitlines(), 1) if len(line) > LONGEST_LINE]
    assert not long, f"lines over {LONGEST_LINE} characters: {long}"


def test_code_refers_to_pages_that_exist():
    for source in (ROOT / "src").rglob("*.py"):
        for path in re.findall(r"docs/[\w/-]+\.md", source.read_text()):
            assert (ROOT / path).is_file(), f"{source.relative_to(ROOT)}: {path}"


def test_code_refers_to_deviations_that_exist():
    listed = re.findall(r"^(\d+)\. \*\*", (ROOT / "docs/deviations.md").read_text(), flags=re.MULTILINE)
    assert [int(number) for number in listed] == list(range(1, len(listed) + 1))
    for source in (*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")):
        assert set(re.findall(r"deviation (\d+)", source.read_text())) <= set(listed), source


@pytest.mark.parametrize("walk", ["control-walk", "data-walk"])
def test_a_walk_opens_at_most_ten_files(walk: str):
    page = ROOT / f"docs/concepts/{walk}.md"
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", page.read_text(), flags=re.MULTILINE)
    assert 5 < len(steps) <= 10
