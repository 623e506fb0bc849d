"""Score and metric tables of stores written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import handmade
import numpy as np
import pytest
from handmade import FORGETS, KEEPS, SETTINGS, atari_sequence, make_store, row_of, write_chain

from reaper.report.findings import caveats, final_level, headline
from reaper.report.page import write_page
from reaper.report.paper_comparison import paper_table
from reaper.report.score_tables import metric_table, score_table
from reaper.report.scores import gather_scores
from reaper.report.table_formats import csv_table
from reaper.report.text_report import markdown_report, terminal_report
from reaper.results.metrics import better_than_random
from reaper.results.runs import read_results
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_sequence


def test_score_table_by_hand(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS}, seeds=(0, 1))
    text = markdown_report(store, ["reaper run RePR no-reh --out runs/mine"])
    # memory: 3 tasks x 2.5 MB; both seeds have the same scores
    cells = row_of(text, "### Scores", "RePR")
    assert cells == ["RePR", "8.0 ± 0.5", "60 ± 0", "0.90 ± 0.50", "7.50", "0.78", "3 of 3", "2"]
    assert row_of(text, "### Scores", "single")[1:4] == ["10.0 ± 0.5", "100 ± 0", "1.00 ± 0.50"]
    assert row_of(text, "### Scores", "random")[1:4] == ["0.0 ± 0.5", "0 ± 0", "-1.00 ± 0.50"]
    # normalised: 8/10, 60/100, (0.9 + 1)/2; average (0.8 + 0.6 + 0.95)/3
    # forgetting: (1 - 0.8 + 1 - 0.6)/2; nothing transfers forward
    cells = row_of(text, "### Learning", "RePR")
    intervals = ["0.78 [0.78, 0.78]", "0.30 [0.30, 0.30]", "-0.30 [-0.30, -0.30]", "0.00 [0.00, 0.00]"]
    intervals.append("0.70 [0.70, 0.70]")  # retained: (0.8 + 0.6)/2
    assert cells == ["RePR", "0.80", "0.60", "0.95", *intervals, "3 of 3"]
    assert [cell[:5] for cell in row_of(text, "### Learning", "no-reh")[-5:-1]] == ["0.95 ", "-0.95", "0.00 ", "0.05 "]
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


def test_a_task_that_was_not_learnt_counts_in_no_average(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """0.4 against 0 for random play, each plus or minus 0.98. Normalised, RePR's 8 would be 20 and the average 7.2."""
    monkeypatch.setattr(handmade, "SINGLE", (0.4, 100.0, 1.0))
    store = make_store(tmp_path / "run", {"RePR": KEEPS})
    (scores,) = gather_scores(read_results(store))
    table = dict(zip(*_header_and_row(score_table(scores), "RePR"), strict=True))
    assert (table["Catch"], table["average"], table["tasks"]) == ("8.00 ± 0.50", "0.77", "2 of 3")  # (0.6 + 0.95)/2
    cells = dict(zip(*_header_and_row(metric_table(scores), "RePR"), strict=True))
    assert [cells[title] for title in scores.titles] == ["–", "0.60", "0.95"]
    # Dodge alone can have been forgotten; Dodge and Shooter are at random play before they are learnt
    assert [cells[name] for name in ("average", "forgetting", "backward transfer")] == ["0.77", "0.40", "-0.40"]
    assert [cells[name] for name in ("forward transfer", "retained", "tasks")] == ["0.00", "0.60", "2 of 3"]
    assert headline([scores]) == "RePR retained 60 % of what it learnt, not counting Catch."
    assert "RePR at 77 % of the level of a DQN trained on each task alone, not counting Catch." in final_level(scores)
    (note,) = [text for text in caveats(scores, ["RePR"]) if "no better than random play" in text]
    assert note.startswith("On Catch ")
    text = markdown_report(store)
    assert note in text
    assert row_of(text, "**RePR**", "after Dodge") == ["after Dodge", "9.00 (–)", "100 (1.00)", "-1.00 (0.00)"]
    assert csv_table(metric_table(scores)).splitlines()[1].startswith("RePR,,0.60,0.95,")


def test_a_task_is_left_out_only_for_the_seeds_that_did_not_learn_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0,))
    monkeypatch.setattr(handmade, "SINGLE", (0.4, 100.0, 1.0))
    write_chain(store, build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge,shooter"), 1, SETTINGS), KEEPS)
    (scores,) = gather_scores(read_results(store))
    cells = dict(zip(*_header_and_row(metric_table(scores), "RePR"), strict=True))
    assert (cells["Catch"], cells["tasks"]) == ("0.80", "2 to 3 of 3")  # of seed 0
    assert any(text.startswith("On Catch (seed 1) ") for text in caveats(scores, ["RePR"]))


def test_where_no_task_was_learnt_all_averages_are_undefined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handmade, "SINGLE", handmade.RANDOM)
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS}, seeds=(0, 1))
    (scores,) = gather_scores(read_results(store))
    assert set(_header_and_row(metric_table(scores), "RePR")[1][1:-1]) == {"–"}
    assert _header_and_row(metric_table(scores), "RePR")[1][-1] == "0 of 3"
    assert final_level(scores) == ""
    assert headline([scores]) == "Too little was learnt on Catch, Dodge and Shooter to measure how much was retained."
    assert "0 of 3" in write_page(store, tmp_path / "page.html", videos=False).read_text()
    assert "0 of 3" in markdown_report(store)
    assert list(terminal_report(store))


def test_one_episode_cannot_show_that_a_task_was_learnt():
    one, many = np.array([10.0]), np.array([9.0, 10.0, 11.0])
    assert better_than_random(many, many - 10)
    assert not better_than_random(one, many - 10)
    assert not better_than_random(many, one - 10)
    assert not better_than_random(many, np.full(3, np.nan))


def test_human_levels_are_shown_for_the_games_that_the_paper_names(tmp_path: Path):
    atari = atari_sequence()
    text = markdown_report(make_store(tmp_path / "run", {"RePR": KEEPS}, atari))
    assert row_of(text, "### Scores", "human")[1:4] == ["7845.0", "4", "407.00"]  # precision as in their columns
    others = replace(atari, tasks=(atari.tasks[1], *find_sequence("catch,dodge").tasks))
    text = markdown_report(make_store(tmp_path / "others", {"RePR": KEEPS}, others))
    assert row_of(text, "### Scores", "human")[1:4] == ["4.0", "–", "–"]
    assert "| human |" not in markdown_report(make_store(tmp_path / "none", {"RePR": KEEPS}))


def test_how_many_real_items_a_memory_holds(tmp_path: Path):
    store = make_store(tmp_path / "run", {"reh-limit-comp": KEEPS, "RePR": KEEPS}, atari_sequence(), seeds=(0, 1))
    (scores,) = gather_scores(read_results(store))
    assert not any("items" in note for note in score_table(scores).notes)  # not stated by earlier versions
    for run in scores.runs:
        run.stored_items[-1] = 18_000 + run.seed if run.name == "reh-limit-comp" else None
    assert "Real items in the final memory: reh-limit-comp 18,000 (paper 17,000)." in score_table(scores).notes


def test_the_size_of_a_compressed_store(tmp_path: Path):
    store = make_store(tmp_path / "run", {"reh": KEEPS, "RePR": KEEPS}, atari_sequence())
    (scores,) = gather_scores(read_results(store))
    assert "compressed (MB)" not in score_table(scores).header  # not stated by earlier versions
    for run in scores.runs:
        run.compressed_bytes[-1] = 1_250_000 if run.name == "reh" else None
    table = dict(zip(*_header_and_row(score_table(scores), "reh"), strict=True))
    assert (table["memory (MB)"], table["compressed (MB)"]) == ("7.50", "1.25")
    assert dict(zip(*_header_and_row(score_table(scores), "RePR"), strict=True))["compressed (MB)"] == "–"
    published = paper_table(scores)
    assert published
    paper = dict(zip(*_header_and_row(published, "reh"), strict=True))
    assert (paper["memory in the paper (GB)"], paper["compressed in the paper (GB)"]) == ("7.063", "0.250")
