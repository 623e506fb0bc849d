"""Score and metric tables of stores written by hand."""

from __future__ import annotations

from pathlib import Path

import handmade
import pytest
from handmade import FORGETS, KEEPS, SETTINGS, make_store, row_of, write_chain

from reaper.report.findings import caveats, headline
from reaper.report.score_tables import metric_table, score_table
from reaper.report.scores import gather_scores
from reaper.report.text_report import markdown_report
from reaper.results.runs import read_results
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_sequence


def test_score_table_by_hand(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS}, seeds=(0, 1))
    text = markdown_report(store, ["reaper run RePR no-reh --out runs/mine"])
    # memory: 3 tasks x 2.5 MB; both seeds have the same scores
    assert row_of(text, "### Scores", "RePR") == ["RePR", "8.0 ± 0.5", "60 ± 0", "0.90 ± 0.50", "7.50", "0.78", "2"]
    assert row_of(text, "### Scores", "single")[1:4] == ["10.0 ± 0.5", "100 ± 0", "1.00 ± 0.50"]
    assert row_of(text, "### Scores", "random")[1:4] == ["0.0 ± 0.5", "0 ± 0", "-1.00 ± 0.50"]
    # normalised: 8/10, 60/100, (0.9 + 1)/2; average (0.8 + 0.6 + 0.95)/3
    # forgetting: (1 - 0.8 + 1 - 0.6)/2; nothing transfers forward
    cells = row_of(text, "### Learning", "RePR")
    intervals = ["0.78 [0.78, 0.78]", "0.30 [0.30, 0.30]", "-0.30 [-0.30, -0.30]", "0.00 [0.00, 0.00]"]
    intervals.append("0.70 [0.70, 0.70]")  # retained: (0.8 + 0.6)/2
    assert cells == ["RePR", "0.80", "0.60", "0.95", *intervals]
    assert [cell[:5] for cell in row_of(text, "### Learning", "no-reh")[-4:]] == ["0.95 ", "-0.95", "0.00 ", "0.05 "]
    assert row_of(text, "**RePR**", "after Dodge") == ["after Dodge", "9.0 (0.90)", "100 (1.00)", "-1.00 (0.00)"]
    assert text.index("| no-reh |") < text.index("| RePR |"), "rows follow the table of conditions"
    assert "reaper run RePR no-reh --out runs/mine" in text


def test_deviation_is_over_all_episodes_of_all_seeds(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0,))
    chain = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge,shooter"), 1, SETTINGS)
    write_chain(store, chain, [*KEEPS[:2], [4, 60, 0.9]])
    (scores,) = gather_scores(read_results(store))
    # episodes 7.5, 8.5, 3.5, 4.5: mean 6, deviations 1.5, 2.5, -2.5, -1.5, so sqrt((2.25 + 6.25) / 2) = 2.06
    assert dict(zip(*_header_and_row(score_table(scores), "RePR"), strict=True))["Catch"] == "6.0 ± 2.1"
    cells = dict(zip(*_header_and_row(metric_table(scores), "RePR"), strict=True))
    assert cells["Catch"] == "0.60"
    # averages: (0.8 + 0.6 + 0.95)/3 = 0.783 and (0.4 + 0.6 + 0.95)/3 = 0.650
    assert cells["average"] == "0.72 [0.65, 0.78]"
    # Catch falls from 1.0 to 0.8 and to 0.4, Dodge from 1.0 to 0.6 twice: 0.3 and 0.5
    assert cells["forgetting"] == "0.40 [0.30, 0.50]"


def _header_and_row(table, label: str):
    return table.header, next(row for row in table.rows if row[0] == label)


def test_conditions_with_other_networks_have_their_own_references(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "RePR-extend": KEEPS})
    (scores,) = gather_scores(read_results(store))
    assert [row.label for row in scores.references] == ["single (RePR)", "single (RePR-extend)", "random"]
    assert "network.width" in markdown_report(store)


def test_a_task_that_was_not_learnt_does_not_count_as_retained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handmade, "SINGLE", (-1.0, 100.0, 1.0))  # on the first task, worse than random play
    scores = gather_scores(read_results(make_store(tmp_path / "run", {"RePR": KEEPS})))
    assert headline(scores) == "Too little was learnt on Catch to measure how much was retained."
    assert _header_and_row(metric_table(scores[0]), "RePR")[1][1] == "–"
    assert any("hardly better than random play" in text for text in caveats(scores[0], ["RePR"]))
