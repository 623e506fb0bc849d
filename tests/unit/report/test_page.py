"""Pages and their files, for stores written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from handmade import FORGETS, KEEPS, SETTINGS, make_store, row_of

from reaper.config.sparse_json import to_json
from reaper.report import rendering, theme
from reaper.report.page import write_page, write_report
from reaper.report.provenance import DEVIATIONS
from reaper.report.text_report import markdown_report
from reaper.storage.files import checksummed, read_checksummed
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_sequence


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
    assert "://" not in text  # no addresses; embedded images, as base64, have no colon
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
    names = ("scores", "forgetting", "continual-world", "generated-states-RePR", "wall-time", "settings")
    names += ("deviations", "stages")
    tables = {f"tables/{name}.{kind}" for name in names for kind in ("tex", "csv")}
    assert {file for file in files if not file.startswith("cache/")} == {
        *("index.html", "scores.md", "results.csv"),
        *images,
        *tables,
    }
    for file in images:
        assert (page.parent / file).read_bytes().startswith(b"\x89PNG" if file.endswith("png") else b"%PDF")


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
    store = make_store(tmp_path / "run", {"RePR": [[10]], "no-reh": [[10]]}, "catch")
    page = page_of(store, tmp_path)
    assert "One task so far, so nothing could be forgotten: Catch 10.0 (random play 0.0)." in page
    assert "there is nothing to forget" in page
    assert row_of(markdown_report(store), "### Learning", "RePR") == ["RePR", "1.00", "1.00", *"––––", "1 of 1"]


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


def test_every_deviation_on_the_page_is_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "deviations.md").read_text()
    for name, _ in DEVIATIONS:
        assert f"**{name}**" in text


def test_no_machine_or_user_is_named(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS})
    for path in store.folder.glob("stages/*/provenance.json"):
        path.write_bytes(checksummed({**read_checksummed(path), "host": "secret-host", "user": "secret-user"}))
    assert "secret" not in page_of(store, tmp_path)
