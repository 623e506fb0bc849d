"""Our scores compared with the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import handmade
import pytest
from handmade import KEEPS, atari_sequence, make_store

from reaper.config.presets import PAPER
from reaper.paper.results import Score
from reaper.report.paper_comparison import NOT_COMPARABLE, paper_table, verdict
from reaper.report.scores import gather_scores
from reaper.results.runs import read_results

TITLES = ("A", "B")
PAPERS = (Score(100, 10), Score(50, 5))


def test_verdicts():
    def verdict_on(first: float, second: float, deviation: float = 1.0, share: float = 1.0) -> str:
        return verdict(TITLES, [Score(first, deviation), Score(second, deviation)], PAPERS, share)

    assert verdict_on(100, 50) == verdict_on(110, 45) == "reproduced"
    assert verdict_on(111, 56) == "better"
    assert verdict_on(89, 44) == "worse"
    assert verdict_on(111, 50) == "better on A"
    assert verdict_on(100, 44) == "worse on B"
    assert verdict_on(111, 44) == "better on A, worse on B"
    assert verdict_on(119, 31, deviation=19) == "reproduced", "the larger of both deviations counts"
    assert verdict_on(100, 50, share=0.99) == NOT_COMPARABLE
    assert verdict(TITLES, [None, Score(50, 1)], PAPERS, 1.0) == "reproduced"
    assert verdict(TITLES, [None, None], PAPERS, 1.0) == "–", "nothing to compare yet"


def table_of(store):
    (scores,) = gather_scores(read_results(store))
    return paper_table(scores)


def test_the_paper_is_compared_only_on_its_own_tasks(tmp_path: Path):
    table = table_of(make_store(tmp_path / "atari", {"RePR": KEEPS}, atari_sequence()))
    assert table
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    # ours: 8, 60 and 0.9; single-task DQNs: 10, 100 and 1
    assert rows["RePR"]["Road Runner"] == "22042 ± 5375 (0.00)"
    assert rows["RePR"]["Boxing"] == "82 ± 12 (0.73)"
    assert (rows["RePR"]["share of single"], rows["RePR"]["share of single (paper)"]) == (
        "77 %",
        "80 %",
    )  # (0.8 + 0.6 + 0.9)/3
    assert rows["RePR"]["memory in the paper (MB)"] == "23.00"
    assert rows["single"]["Boxing"] == "88 ± 8 (1.14)"
    assert {row["verdict"] for row in rows.values()} == {NOT_COMPARABLE}
    assert any("0.002 of the paper's budget" in note for note in table.notes)
    assert table_of(make_store(tmp_path / "arcade", {"RePR": KEEPS})) is None


def test_verdicts_at_the_papers_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = replace(PAPER, evaluation=replace(PAPER.evaluation, episodes=handmade.EPISODES))
    monkeypatch.setattr(handmade, "SETTINGS", settings)
    monkeypatch.setattr(handmade, "SINGLE", (29463.0, 88.0, 645.0))
    matrix = [[29463, 0, 0], [25000, 88, 0], [23000, 60, 468]]
    table = table_of(make_store(tmp_path / "full", {"RePR": matrix, "no-reh": matrix}, atari_sequence()))
    assert table
    verdicts = {row[0]: row[-1] for row in table.rows}
    assert verdicts == {
        "RePR": "worse on Boxing",
        "no-reh": "better on Road Runner and Boxing",
        "single": "reproduced",
    }
    row = next(row for row in table.rows if row[0] == "no-reh")
    assert row[1:3] == ("0 ± 0 (–)", "-13 ± 9 (–)"), "no ratio to a score of zero or less"
