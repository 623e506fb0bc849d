"""Summaries of results: one row per evaluation, and the description of where they come from."""

import json

import pytest
from handmade import FORGETS, KEEPS, SETTINGS, make_store

from reaper.cli.main import main
from reaper.errors import UserError
from reaper.results.studies import describe, read_sources, source_files, write_sources
from reaper.results.summary import OVERLAP, STUDENT, TEACHER, read_csv, summary_rows
from reaper.storage.manifests import Provenance
from reaper.storage.records import ExperimentRecord
from reaper.storage.store import Store
from reaper.study.analysis_stages import overlaps, students
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.study.experiments import EXPERIMENTS, _entry
from reaper.tasks.sequence import find_sequence


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "out", {"RePR": KEEPS, "no-reh": FORGETS}, seeds=(3, 4))


def found(rows, **values):
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def test_an_evaluation_is_one_row(store):
    rows = summary_rows(store)
    (row,) = found(rows, condition="RePR", seed=3, kind="final", num_tasks=3, task="dodge")
    assert (row["episodes"], row["mean"], row["std"], row["min"], row["max"]) == (2, 60.0, 0.5, 59.5, 60.5)
    assert row["normalised"] == pytest.approx(0.6)  # random play 0, a DQN of its own 100
    assert row["memory_bytes"] == 7_500_000
    (single,) = found(rows, condition="single", seed=4, task="shooter")
    assert (single["mean"], single["num_tasks"]) == (1.0, 1)
    # Two conditions, three tasks after each of three tasks, two seeds; then two references.
    assert len(found(rows, kind="final")) == 2 * 9 * 2 + 2 * 3 * 2


def test_teachers_have_the_range_of_all_their_evaluations(store):
    (row,) = found(summary_rows(store), kind=TEACHER, seed=3, task="catch")
    assert (row["min"], row["max"], row["episodes"]) == (4.5, 10.5, 4)  # 5 and 10, half a point either side


def test_what_experiments_add(tmp_path):
    store = make_store(tmp_path / "out", {"RePR": KEEPS}, seeds=(3,))
    chain = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge,shooter"), 3, SETTINGS)
    added = [*students([chain]), *overlaps([chain])]
    for name, stages in (("item-quality", students([chain])), ("overlap", overlaps([chain]))):
        store.write_experiment(
            ExperimentRecord(
                name=f"{name}--x--seed-3",
                experiment=name,
                sequence=chain.sequence.name,
                tasks=chain.sequence.names,
                titles=chain.sequence.titles,
                seed=3,
                command=f"reaper experiment {name}",
                runs=(chain.name,),
                stages=tuple(map(_entry, stages)),
            )
        )
    for row in added:
        documents = {}
        if row.role == "evaluation":
            documents["rows"] = [{"task": task, "agent_steps": 0, "scores": [2.0, 4.0]} for task in row.about["tasks"]]
        if row.role == "overlap":
            documents["overlap"] = [{"first": "catch", "second": "dodge", "overlap": 0.25}]
        if documents:
            store.write_stage(row.stage.manifest, {}, documents, Provenance(seconds=5.0))
    rows = summary_rows(store)
    (alone,) = found(rows, kind=STUDENT, condition="generated", after_task="catch", task="catch")
    assert alone["normalised"] == pytest.approx(0.3)  # 3 of its teacher's 10
    (together,) = found(rows, kind=STUDENT, condition="real", after_task="catch+dodge+shooter", task="catch")
    assert together["normalised"] == pytest.approx(3 / 8)  # the last agent, its teacher, has 8
    (pair,) = found(rows, kind=OVERLAP)
    assert (pair["condition"], pair["after_task"], pair["task"], pair["mean"]) == ("RePR", "catch", "dodge", 0.25)
    assert {study.experiment: study.missing > 0 for study in describe(store, "x", "").studies} == {
        "item-quality": True,
        "overlap": True,
    }
    assert "item-quality" in EXPERIMENTS


def test_files_are_read_back(store, tmp_path):
    write_sources(tmp_path / "data", source_files(store, "mine", "abc1234"))
    ((source, rows),) = read_sources(tmp_path / "data")
    assert (source.name, source.preset, source.fraction, source.commit) == ("mine", "arcade", 1.0, "abc1234")
    assert source.titles == {"catch": "Catch", "dodge": "Dodge", "shooter": "Shooter"}
    assert [(s.experiment, s.seed, s.missing) for s in source.studies] == [("run", 3, 0), ("run", 4, 0)]
    assert set(source.studies[0].conditions) == {"RePR", "no-reh"}
    assert source.studies[0].seconds == 60 * source.studies[0].stages
    assert len(rows) == len(summary_rows(store))
    for row, written in zip(summary_rows(store), rows, strict=True):
        assert {name: pytest.approx(v, rel=1e-5) if isinstance(v, float) else v for name, v in row.items()} == written


def test_the_command_adds_a_folder(store, tmp_path, capfd):
    assert main(["reproduction", str(tmp_path / "data"), "--add", str(store.folder), "--commit", "abc"]) == 0
    assert (tmp_path / "data" / "out.csv").exists()
    assert json.loads((tmp_path / "data" / "out.json").read_text())["commit"] == "abc"
    assert "  confirmed  RePR is far above no retention: +0.42 [0.42, 0.42] (2 seeds)" in capfd.readouterr().out
    assert main(["reproduction", str(tmp_path / "data"), "--commit", "abc"]) == 2
    assert "--commit goes with --add" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "format,seed\n9,1\n", "\x00"])
def test_a_file_that_is_something_else_is_refused(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(UserError, match="is not a summary of results"):
        read_csv(tmp_path / "x.csv")


def test_rows_without_their_description_are_refused(store, tmp_path):
    write_sources(tmp_path / "data", source_files(store, "mine", ""))
    (tmp_path / "data" / "mine.json").write_text("[]")
    with pytest.raises(UserError, match=r"does not describe mine\.csv"):
        read_sources(tmp_path / "data")
    assert Store.open(store.folder).runs()
