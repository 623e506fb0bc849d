"""Reports on stores written by hand, with known scores."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import handmade
import matplotlib as mpl
import numpy as np
import pytest
from handmade import FORGETS, KEEPS, SETTINGS, atari_sequence, make_store, row_of, write_chain
from rich.console import Console

from reaper.config.sparse_json import to_json
from reaper.report import rendering, theme
from reaper.report.curves import curve, over_seeds, spread_out
from reaper.report.findings import caveats, final_level, headline, percent
from reaper.report.page import write_page, write_report
from reaper.report.provenance import DEVIATIONS
from reaper.report.score_tables import metric_table, score_table
from reaper.report.scores import gather_scores
from reaper.report.state_images import mosaic
from reaper.report.table_formats import csv_table, latex_escape, latex_table
from reaper.report.text_report import markdown_report, terminal_report
from reaper.report.text_table import TextTable, decimals_for, memory_unit, number
from reaper.results.runs import read_results
from reaper.storage.files import checksummed, read_checksummed
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_sequence

# -- numbers


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


def test_provenance(tmp_path: Path):
    text = markdown_report(make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(3,), fraction=0.25))
    assert "Fraction of the training budget: 0.25. Seeds: 3." in text
    assert row_of(text, "### Settings that differ", "observation.frame-size") == ["observation.frame-size", "16", "84"]
    assert "processor: abacus" in text
    assert "torch: 9.9" in text
    # 3 teachers, 3 consolidations; 3 evaluations of memories, 3 of teachers and one of random play: 60 s each
    assert row_of(text, "### Wall time", "evaluate") == ["evaluate", "7", "7.0 min", "1.0 min", ""]
    trained = SETTINGS.short_term.agent_steps
    assert row_of(text, "### Wall time", "short-term")[4] == f"{trained / 60:,.0f}"
    # The first of the three consolidations copies its teacher and trains nothing.
    assert row_of(text, "### Wall time", "consolidate")[4] == f"{SETTINGS.long_term.agent_steps / 60:,.0f}"
    assert row_of(text, "### Wall time", "total")[1:3] == ["13", "13.0 min"]


def test_conditions_with_other_networks_have_their_own_references(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "RePR-extend": KEEPS})
    (scores,) = gather_scores(read_results(store))
    assert [row.label for row in scores.references] == ["single (RePR)", "single (RePR-extend)", "random"]
    assert "network.width" in markdown_report(store)


def test_curves_run_over_the_whole_sequence(tmp_path: Path):
    results = read_results(make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0, 1)))
    assert curve(results[0], "catch") == {20_000: 5, 40_000: 10, 80_000: 9, 120_000: 8}
    assert curve(results[0], "shooter") == {120_000: pytest.approx(0.9)}
    steps, mean, spread = over_seeds(results, "dodge")
    assert (steps.tolist(), mean.tolist(), spread.tolist()) == ([80_000, 120_000], [100, 60], [0, 0])


# -- sentences


def test_headline(tmp_path: Path):
    both = gather_scores(read_results(make_store(tmp_path / "a", {"RePR": KEEPS, "no-reh": FORGETS, "reh": KEEPS})))
    # retained: (0.8 + 0.6)/2 and (0 + 0.1)/2
    assert headline(both) == "RePR retained 70 % of what it learnt; without a retention method, 5 % is left."
    assert "RePR at 78 %" in final_level(both[0])
    one = gather_scores(read_results(make_store(tmp_path / "b", {"no-reh": FORGETS})))
    assert headline(one) == "Without a retention method, 5 % of what was learnt is left."
    assert headline([]) == "There are no runs in this folder yet."
    assert percent(-0.3) == "0 %"


def test_a_task_that_was_not_learnt_does_not_count_as_retained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handmade, "SINGLE", (-1.0, 100.0, 1.0))  # on the first task, worse than random play
    scores = gather_scores(read_results(make_store(tmp_path / "run", {"RePR": KEEPS})))
    assert headline(scores) == "Too little was learnt on Catch to measure how much was retained."
    assert _header_and_row(metric_table(scores[0]), "RePR")[1][1] == "–"
    assert any("hardly better than random play" in text for text in caveats(scores[0], ["RePR"]))


def test_numbers_as_text():
    assert (number(math.nan), number(-0.001), number(-0.5)) == ("–", "0.00", "-0.50")
    assert [decimals_for([value, math.nan]) for value in (22042, 12.5, 3)] == [0, 1, 2]
    assert [memory_unit([value])[0] for value in (7.063e9, 2.3e7, 9e5)] == ["GB", "MB", "kB"]


# -- pages


@pytest.fixture(autouse=True)
def _coarse_figures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """Encoding large images and fonts would take most of the time."""
    monkeypatch.setattr(theme, "DPI", 40)
    if "files" not in request.node.name:
        monkeypatch.setattr(rendering, "as_pdf", lambda figure: None)


KINDS = ("png", "pdf")


def page_of(store: Store, tmp_path: Path) -> str:
    text = write_page(store, tmp_path / "page.html").read_text()
    assert str(tmp_path) not in text, "a page must not show where it was made"
    assert "http" not in text
    assert "<script" not in text
    return text


def test_a_report_has_all_its_files(tmp_path: Path):
    settings_before = dict(mpl.rcParams)
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS})
    page = write_report(store)
    assert dict(mpl.rcParams) == settings_before
    assert page == tmp_path / "run" / "report" / "index.html"
    files = {str(path.relative_to(page.parent)) for path in page.parent.rglob("*") if path.is_file()}
    images = {
        f"figures/{name}.{kind}" for name in ("bars", "curves", "matrices", "generated-states-RePR") for kind in KINDS
    }
    names = ("scores", "forgetting", "generated-states-RePR", "wall-time", "settings", "deviations", "stages")
    tables = {f"tables/{name}.{kind}" for name in names for kind in ("tex", "csv")}
    assert {file for file in files if not file.startswith("cache/")} == {
        *("index.html", "scores.md", "results.csv"),
        *images,
        *tables,
    }
    for file in images:
        assert (page.parent / file).read_bytes().startswith(b"\x89PNG" if file.endswith("png") else b"%PDF")


def test_unfinished_runs_are_reported_as_such(tmp_path: Path):
    def until(condition: str, seed: int) -> int | None:
        return 2 if condition == "RePR" and seed == 1 else 1 if condition == "reh" else None

    store = make_store(tmp_path / "run", {"RePR": KEEPS, "reh": KEEPS}, seeds=(0, 1), until=until)
    page = page_of(store, tmp_path)
    assert "RePR: 1 of 2 seeds not finished, and not counted." in page
    assert "reh is not finished: 1 of 3 tasks learnt so far." in page
    assert page.count("<figure") == 4
    assert "1 of 2" in row_of(markdown_report(store), "### Scores", "RePR")


def test_a_run_that_has_just_started(tmp_path: Path):
    header = StoreHeader("1", "arcade", 1.0, to_json(SETTINGS))
    store = Store.open_for(tmp_path / "run", header)
    assert "There are no runs in this folder yet." in page_of(store, tmp_path)
    chain = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge"), 0, SETTINGS)
    store.write_run(chain.record())
    assert "Not finished yet: RePR has learnt 0 of 2 tasks." in page_of(store, tmp_path)
    assert "0 of 9 finished" in markdown_report(store)


def test_one_task(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": [[9]], "no-reh": [[10]]}, "catch")
    page = page_of(store, tmp_path)
    assert "One task so far, so nothing could be forgotten: Catch 10.0 (random play 0.0)." in page
    assert "there is nothing to forget" in page
    assert row_of(markdown_report(store), "### Learning", "RePR") == ["RePR", "0.90", "0.90", *"––––"]


def test_only_single(tmp_path: Path):
    store = make_store(tmp_path / "run", {"single": KEEPS})
    assert "One DQN per task: Catch 10.0 (random play 0.0)," in page_of(store, tmp_path)
    assert row_of(markdown_report(store), "### Scores", "single") == [
        "single",
        "10.0 ± 0.5",
        "100 ± 0",
        "1.00 ± 0.50",
    ]


def test_several_orders_in_one_folder(tmp_path: Path):
    make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS})
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, "dodge,catch,shooter")
    path = write_report(store)
    page = path.read_text()
    assert page.count("<h2>") == 3  # two sequences, and the provenance
    assert "Not run on this sequence: no-reh." in page
    assert "in 2 orders" in page
    assert (path.parent / "figures" / "2-bars.png").exists()


def test_no_number_is_cut_in_the_terminal(tmp_path: Path):
    console = Console(width=80, record=True, file=(tmp_path / "log").open("w"))
    for table in terminal_report(make_store(tmp_path / "run", {"RePR": KEEPS}, atari_sequence())):
        console.print(table)
    text = console.export_text()
    assert "22042 ± 5375" in text
    assert "…" not in text


def test_mosaic_has_every_pixel():
    frames = np.arange(5 * 4).reshape(5, 2, 2)
    pixels = mosaic(frames, rows=2, columns=3)
    assert pixels.shape == (5, 8)
    np.testing.assert_array_equal(pixels[3:5, 3:5], frames[4])
    assert np.isnan(pixels[3:5, 6:]).all()


def test_labels_are_moved_apart_no_further_than_needed():
    assert spread_out([0.2, 0.5, 0.9], 0.1) == pytest.approx([0.2, 0.5, 0.9])
    assert spread_out([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.5, 0.6, 0.7])
    assert spread_out([0.9, 0.95, 1.0], 0.1) == pytest.approx([0.8, 0.9, 1.0]), "they stay in the panel"


def test_failed_stages_are_named_with_their_error_but_no_paths(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, until=lambda condition, seed: 1)
    record = store.run("RePR--catch-dodge-shooter--seed-0")
    failed, started = record.memories[1], record.memories[2]
    error = f"no room in {tmp_path}/run, or in C:\\runs; loss is not finite"
    (store.folder / "live").mkdir()
    (store.folder / "live" / f"{failed}.json").write_text(json.dumps({"state": "failed", "error": error}))
    (store.folder / "live" / f"{record.random}.json").write_text("not JSON, and the stage is finished")
    (store.folder / "unfinished" / started / "1").mkdir(parents=True)
    page = page_of(store, tmp_path)
    assert "RePR: consolidate dodge (seed 0) failed: no room in (path), or in (path); loss is not finite." in page
    assert "1 stage not finished (started)." in page
    assert "RePR is not finished: 1 of 3 tasks learnt so far." in page
    assert "Not finished yet: RePR has learnt 1 of 3 tasks." in page


def test_many_conditions_are_not_all_named_in_one_sentence(tmp_path: Path):
    worse = [*KEEPS[:2], [7, 50, 0.9]]
    conditions = {"no-reh": FORGETS, "reh": KEEPS, "RePR": worse, "ewc": worse, "DGDMN": worse}
    (scores,) = gather_scores(read_results(make_store(tmp_path / "run", conditions)))
    # no-reh: (0 + 0.1 + 1)/3; reh: (0.8 + 0.6 + 0.95)/3; RePR: (0.7 + 0.5 + 0.95)/3
    assert "no-reh at 37 %, reh at 78 % and RePR at 72 % of the level" in final_level(scores)


def test_every_deviation_on_the_page_is_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "deviations.md").read_text()
    for name, _ in DEVIATIONS:
        assert f"**{name}**" in text


def test_no_machine_or_user_is_named(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS})
    for path in store.folder.glob("stages/*/provenance.json"):
        path.write_bytes(checksummed({**read_checksummed(path), "host": "secret-host", "user": "secret-user"}))
    assert "secret" not in page_of(store, tmp_path)


# -- files for a paper


def test_latex_is_escaped_and_whole():
    assert latex_escape("50 % of a_b & {c} #1 $x ~ ^ \\") == (
        r"50 \% of a\_b \& \{c\} \#1 \$x \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex_escape("-0.5 ± 1 [-1, 2] no-reh –") == r"$-$0.5 $\pm$ 1 [$-$1, 2] no-reh --"
    text = latex_table(TextTable("A & B", ("x", "50 %"), [("a_1", "-1"), ("b", "2")], ["Note #1."]))
    lines = text.splitlines()
    assert lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")] == [r"a\_1 & $-$1 \\", r"b & 2 \\"]
    assert r"\caption{A \& B. Note \#1.}" in lines
    assert r"\begin{tabular}{lr}" in lines
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_csv_tables_survive_commas_and_quotes():
    table = TextTable("t", ("a", 'b, "c"'), [("x,y", "0.1 [0.0, 0.2]")])
    assert list(csv.reader(csv_table(table).splitlines())) == [["a", 'b, "c"'], ["x,y", "0.1 [0.0, 0.2]"]]
