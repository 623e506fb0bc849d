"""Sentences of a report, computed from stores written by hand."""

from __future__ import annotations

from pathlib import Path

from handmade import FORGETS, KEEPS, make_store

from reaper.report.findings import final_level, headline, percent
from reaper.report.scores import gather_scores
from reaper.results.runs import read_results


def test_headline(tmp_path: Path):
    both = gather_scores(read_results(make_store(tmp_path / "a", {"RePR": KEEPS, "no-reh": FORGETS, "reh": KEEPS})))
    # retained: (0.8 + 0.6)/2 and (0 + 0.1)/2
    assert headline(both) == "RePR retained 70 % of what it learnt; without a retention method, 5 % is left."
    assert "RePR at 78 %" in final_level(both[0])
    one = gather_scores(read_results(make_store(tmp_path / "b", {"no-reh": FORGETS})))
    assert headline(one) == "Without a retention method, 5 % of what was learnt is left."
    assert headline([]) == "There are no runs in this folder yet."
    assert percent(-0.3) == "0 %"


def test_many_conditions_are_not_all_named_in_one_sentence(tmp_path: Path):
    worse = [*KEEPS[:2], [7, 50, 0.9]]
    conditions = {"no-reh": FORGETS, "reh": KEEPS, "RePR": worse, "ewc": worse, "DGDMN": worse}
    (scores,) = gather_scores(read_results(make_store(tmp_path / "run", conditions)))
    # no-reh: (0 + 0.1 + 1)/3; reh: (0.8 + 0.6 + 0.95)/3; RePR: (0.7 + 0.5 + 0.95)/3
    assert "no-reh at 37 %, reh at 78 % and RePR at 72 % of the level" in final_level(scores)
