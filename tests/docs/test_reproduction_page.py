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


ARCADE = "arcade-3"


def levels() -> dict[tuple[str, str], dict[str, float]]:
    """(column, condition) -> seed -> mean over tasks of the last agent's normalised scores, from the arcade sources."""
    tasks: dict[tuple[str, str, str], dict[str, float]] = {}
    for path in sorted(DATA.glob("*.csv")):
        about = json.loads(path.with_suffix(".json").read_text())
        if about["preset"] != "arcade" or about["overrides"]:
            continue
        column = f"{ARCADE}, seeds 0, 1 and 2 averaged" if about["averaged"] else ARCADE
        for row in csv.DictReader(path.open()):
            if (row["sequence"], row["kind"], row["num_tasks"]) == ("arcade-3", "final", "3"):
                tasks.setdefault((column, row["condition"], row["seed"]), {})[row["task"]] = float(row["normalised"])
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (column, condition, seed), own in tasks.items():
        if len(own) == 3 and condition in SCORES:
            found.setdefault((column, condition), {})[seed] = statistics.mean(own.values())
    return found


def test_the_page_is_generated():
    """If this fails: reaper reproduction docs/results/data --markdown docs/reproduction.md"""
    assert PAGE.read_text() == reproduction_page(DATA)


@pytest.mark.parametrize(("column", "condition"), levels())
def test_shares_follow_from_the_rows(column, condition):
    """Recomputed with nothing but the standard library: the mean over seeds of the mean over tasks."""
    page, by_seed = PAGE.read_text(), levels()[column, condition]
    header = re.findall(r"^\| condition \| paper \|.*$", page, re.MULTILINE)[0]
    place = [cell.strip() for cell in header.split("|")[1:-1]].index(column)
    cell = row_of(page, "**Share of what single-task DQNs reach**", condition)[place]
    seeds = "seeds averaged" if "-1" in by_seed else "1 seed" if len(by_seed) == 1 else f"{len(by_seed)} seeds"
    assert cell.startswith(f"{statistics.mean(by_seed.values()):.2f} ")
    assert cell.endswith(f"({seeds})")


@pytest.mark.parametrize(("source", "page"), [("atari-3-paper", "atari-3"), ("arcade-3-printed", "arcade-3")])
def test_rows_copied_from_a_page_are_those_of_the_page(source, page):
    text = (ROOT / f"docs/results/{page}.md").read_text()
    with (DATA / f"{source}.csv").open() as file:
        last = [row for row in csv.DictReader(file) if row["num_tasks"] == "3"]
    assert {row["condition"] for row in last} >= {"no-reh", "reh", "RePR", "ewc"}
    for condition in {row["condition"] for row in last}:
        cells = row_of(text, "### Scores", condition)[1:4]
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
