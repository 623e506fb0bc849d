"""Where no window of training had enough episodes, a report says that the last weights were used."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_tiny
from handmade import FORGETS, KEEPS, make_store
from rich.text import Text

from reaper.report import rendering, theme
from reaper.report.findings import caveats
from reaper.report.page import write_page
from reaper.report.scores import gather_scores
from reaper.report.text_report import markdown_report, terminal_report
from reaper.results.runs import read_results

BECAUSE = (
    "no window of training had 30 finished episodes, so the DQN that learnt it has its last weights and not its best."
)


def sentences(store) -> list[str]:
    (scores,) = gather_scores(read_results(store))
    return [text for text in caveats(scores, []) if "last weights" in text]


def test_one_sentence_per_task_in_text_and_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(theme, "DPI", 40)
    monkeypatch.setattr(rendering, "as_pdf", lambda figure: None)
    conditions = {"RePR": KEEPS, "no-reh": FORGETS}  # they share their teachers
    store = make_store(tmp_path / "run", conditions, seeds=(0, 1), windows=lambda seed: 0)
    expected = [f"{title}: {BECAUSE}" for title in ("Catch", "Dodge", "Shooter")]
    assert sentences(store) == expected
    in_terminal = "\n".join(part.plain for part in terminal_report(store) if isinstance(part, Text))
    for text in (in_terminal, markdown_report(store), write_page(store, tmp_path / "page.html").read_text()):
        assert [text.count(sentence) for sentence in expected] == [1, 1, 1]


def test_a_sentence_names_the_seeds_if_it_is_not_true_of_all(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0, 1, 2), windows=lambda seed: seed % 2)
    assert sentences(store)[0] == f"Catch (seed 0, 2): {BECAUSE}"


@pytest.mark.parametrize("windows", [1, None])  # None: the stages of version 0.2 did not record it
def test_there_is_no_sentence_where_a_window_counted_or_nothing_is_known(tmp_path: Path, windows: int | None):
    assert sentences(make_store(tmp_path / "run", {"RePR": KEEPS}, windows=lambda seed: windows)) == []


def test_stages_record_how_their_weights_were_chosen(tmp_path: Path):
    """`PR` learns by Q-learning in the long-term system, too, so its long-term agent needs episodes as well."""
    store = run_tiny(tmp_path / "run", ["PR"], "catch,dodge", overrides={"training.best-episodes": 1_000})
    (record,) = store.runs()
    never = {"by": "score", "windows": 0, "chosen": None, "value": None}
    for digest in (*record.teachers, record.memories[1]):
        assert store.stage(digest).document("best_weights") == never
    assert not store.stage(record.memories[0]).has("best_weights.json")  # a copy of the teacher: nothing was trained
    why = "no window of training had 1,000 finished episodes"
    assert sentences(store) == [
        f"Catch: {why}, so the DQN that learnt it has its last weights and not its best.",
        f"Dodge: {why}, so the DQN that learnt it has its last weights and not its best.",
        f"Dodge: {why}, so the long-term agent of PR has its last weights and not its best.",
    ]
