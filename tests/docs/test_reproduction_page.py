"""The page that compares us with the paper is what the committed summaries give, and is never edited by hand."""

from __future__ import annotations

import csv
import json
import re
import statistics
from pathlib import Path

import pytest
from doc_pages import ROOT
from handmade import row_of

from reaper.cli.parser import build_parser, take_dotted
from reaper.paper.results import SCORES
from reaper.report.reproduction.page import reproduction_page
from reaper.results.queue import read_queue

PAGE, DATA = ROOT / "docs/reproduction.md", ROOT / "docs/results/data"
MOST_BYTES = 3_000_000  # of all summaries


def rows() -> list[dict[str, str]]:
    """Of all sources with the arcade preset, as text."""
    found = []
    for path in sorted(DATA.glob("*.csv")):
        about = json.loads(path.with_suffix(".json").read_text())
        if about["preset"] == "arcade" and not about["overrides"]:
            found += list(csv.DictReader(path.open()))
    return found


def test_the_page_is_generated():
    """If this fails: reaper reproduction docs/results/data --markdown docs/reproduction.md"""
    assert PAGE.read_text() == reproduction_page(DATA)


@pytest.mark.parametrize("condition", sorted({row["condition"] for row in rows()} & set(SCORES)))
def test_shares_follow_from_the_rows(condition):
    """Recomputed with nothing but the standard library: the mean over seeds of the mean over tasks."""
    tasks = {"catch", "dodge", "shooter"}
    by_seed: dict[str, dict[str, float]] = {}
    for row in rows():
        final = (row["sequence"], row["condition"], row["kind"], row["num_tasks"]) == (
            "arcade-3",
            condition,
            "final",
            "3",
        )
        if final:
            by_seed.setdefault(row["seed"], {})[row["task"]] = float(row["normalised"])
    levels = [statistics.mean(own.values()) for own in by_seed.values() if set(own) == tasks]
    header, *_ = re.findall(r"^\| condition \| paper \|.*$", PAGE.read_text(), re.MULTILINE)
    column = [cell.strip() for cell in header.split("|")[1:-1]].index("arcade-3, preset arcade, the full budget")
    cells = row_of(PAGE.read_text(), "**Share of what single-task DQNs reach**", condition)
    assert cells[column].split(" ")[0] == f"{statistics.mean(levels):.2f}"
    assert f"({len(levels)} seed" in cells[column]


def test_the_rows_of_the_atari_run_are_those_of_its_page():
    page = (ROOT / "docs/results/atari-3.md").read_text()
    with (DATA / "atari-3-paper.csv").open() as file:
        last = [row for row in csv.DictReader(file) if row["num_tasks"] == "3"]
    assert {row["condition"] for row in last} == {"no-reh", "reh", "RePR", "ewc"}
    for condition in {row["condition"] for row in last}:
        cells = row_of(page, "### Scores", condition)[1:4]
        own = [f"{float(row['mean']):g} ± {float(row['std']):g}" for row in last if row["condition"] == condition]
        assert own == [re.sub(r"\.0\b", "", cell) for cell in cells]


def test_every_table_and_figure_of_the_paper_has_a_section():
    titles = re.findall(r"^## (?:Table|Fig\.) ([a-z-]+|F-over): ", PAGE.read_text(), re.MULTILINE)
    named = ["score-table", "main-results", "scratch", "real-fake-ims", "extend-results", "policy-only-results"]
    assert titles == [*named, "F-over", "lscale"]
    assert "## Grids of the EWC appendix" in PAGE.read_text()
    assert PAGE.read_text().count("**Verdict.**") == 9


def test_commands_of_the_queue_can_be_typed():
    parser = build_parser()
    for entry in read_queue(DATA):
        words, _ = take_dotted(entry.command_for(entry.seeds).split()[1:], ("run", "experiment"), parser)
        arguments = parser.parse_args(words)
        assert arguments.tasks == entry.sequence
        assert entry.study in (arguments.command, getattr(arguments, "name", ""))


def test_the_summaries_stay_small():
    assert sum(path.stat().st_size for path in Path(DATA).iterdir()) < MOST_BYTES
