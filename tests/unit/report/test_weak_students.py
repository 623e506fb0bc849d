"""A network that has not taken over what its teacher knows is not passed over in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from handmade import KEEPS, make_store

from reaper.report.findings import caveats, final_level
from reaper.report.scores import gather_scores
from reaper.results.runs import read_results
from reaper.storage.records import TeacherSource

WEAK = [[10, 0, -1], [9, 50, -1], [8, 50, 0.9]]  # half of what Dodge's teacher scores, from the start


def scores_of(folder: Path, matrix, taught=("dodge",), targets="values"):
    results = read_results(make_store(folder, {"RePR": matrix}))
    for run in results:
        run.record = replace(run.record, sources={task: TeacherSource("sb3:a.zip", "values", "0") for task in taught})
        run.settings = replace(run.settings, long_term=replace(run.settings.long_term, targets=targets))
    (scores,) = gather_scores(results)
    return scores


def sentences(scores) -> list[str]:
    return [text for text in caveats(scores, []) if "right after learning it" in text]


def test_it_is_named_with_what_may_help(tmp_path: Path):
    (sentence,) = sentences(scores_of(tmp_path / "a", WEAK))
    assert sentence.startswith("Dodge: right after learning it, RePR plays at 50 % of its teacher's level.")
    assert "--long-term.targets policy" in sentence
    (sentence,) = sentences(scores_of(tmp_path / "b", WEAK, targets="policy"))
    assert sentence.endswith("It may need more --long-term.agent-steps.")


def test_what_was_forgotten_later_or_learnt_here_is_not(tmp_path: Path):
    assert sentences(scores_of(tmp_path / "a", KEEPS)) == []  # Dodge was learnt well, and partly forgotten
    assert sentences(scores_of(tmp_path / "b", WEAK, taught=("catch",))) == []
    assert sentences(scores_of(tmp_path / "c", WEAK, taught=())) == []


def test_the_level_is_that_of_teachers_where_all_tasks_have_one(tmp_path: Path):
    every = ("catch", "dodge", "shooter")
    assert "of the level of each task's teacher" in final_level(scores_of(tmp_path / "a", KEEPS, taught=every))
    assert "of the level of a DQN trained on each task alone" in final_level(scores_of(tmp_path / "b", KEEPS))
