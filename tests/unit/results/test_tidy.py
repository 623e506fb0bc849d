"""`reaper results`: stable columns, from which every number of the page can be recomputed."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path

import handmade
import numpy as np
import pytest
from handmade import FORGETS, KEEPS, SETTINGS, make_store, write_chain

from reaper.cli import main as cli
from reaper.errors import UserError
from reaper.report.score_tables import metric_table, score_table
from reaper.report.scores import gather_scores
from reaper.results import tidy
from reaper.results.runs import read_results
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_sequence

SAMPLES = Path(__file__).parents[2] / "samples"  # frozen: never to be written again
OTHER = [[10, 0, -1], [8, 90, 0], [4, 70, 0.5]]  # a second seed, which forgets more


@pytest.fixture
def store(tmp_path: Path):
    """RePR with two different seeds, no-reh with two equal ones, and a condition with its own network."""
    store = make_store(tmp_path / "run", {"no-reh": FORGETS}, seeds=(0, 1))
    for name, matrices in (("RePR", (KEEPS, OTHER)), ("RePR-extend", (KEEPS, KEEPS))):
        for seed, matrix in enumerate(matrices):
            chain = build_chain(CONDITIONS[name], find_sequence("catch,dodge,shooter"), seed, SETTINGS)
            write_chain(store, chain, matrix)
    return store


def printed_rows(store, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert cli.main(["results", str(store.folder), "--csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_columns_are_as_documented(store, capsys):
    rows = printed_rows(store, capsys)
    documented = (
        "format condition sequence fraction seed num_tasks after_task evaluation task agent_steps episode score "
        "single_score random_score memory_bytes normalised_score"
    )
    assert list(rows[0]) == documented.split()
    assert {row["format"] for row in rows} == {"2"} == {str(tidy.FORMAT)}
    text = (Path(__file__).parents[3] / "docs" / "reference" / "results-format.md").read_text()
    for column in ("format", *tidy.COLUMNS):
        assert f"| `{column}` |" in text


def test_json_matches_csv(store, capsys):
    rows = printed_rows(store, capsys)
    assert cli.main(["results", str(store.folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], tuple(document["columns"])) == (tidy.FORMAT, tidy.COLUMNS)
    for row, same in zip(rows, document["rows"], strict=True):
        assert {name: "" if value is None else str(value) for name, value in same.items()} | {"format": "2"} == row


def test_a_row_by_hand(store, capsys):
    rows = printed_rows(store, capsys)
    chosen = {"condition": "RePR", "seed": "1", "num_tasks": "2", "evaluation": "final", "task": "dodge"}
    first, second = [row for row in rows if chosen.items() <= row.items()]
    assert (first["score"], second["score"]) == ("89.5", "90.5")
    assert (first["agent_steps"], first["after_task"]) == ("80000", "dodge")
    assert (first["single_score"], first["random_score"]) == ("100.0", "0.0")
    assert first["memory_bytes"] == str(2_500_000 * 2)
    chosen = {"condition": "RePR", "seed": "0", "evaluation": "periodic", "task": "catch"}
    periodic = [(row["num_tasks"], row["agent_steps"], row["score"]) for row in rows if chosen.items() <= row.items()]
    # the teacher's curve, then long-term training on two more tasks; two episodes each
    assert periodic[::2] == [
        ("1", "20000", "4.5"),
        ("1", "40000", "9.5"),
        ("2", "80000", "8.5"),
        ("3", "120000", "7.5"),
    ]


def test_score_table_can_be_recomputed_from_the_rows(store, capsys):
    """Mean, deviation, memory, normalised average, seeds and references."""
    rows = printed_rows(store, capsys)
    (scores,) = gather_scores(read_results(store))
    table = score_table(scores)
    for name in ("no-reh", "RePR"):
        last = [row for row in rows if (row["condition"], row["evaluation"], row["num_tasks"]) == (name, "final", "3")]
        cells = dict(zip(table.header, next(row for row in table.rows if row[0] == name), strict=True))
        for task, title, decimals in (("catch", "Catch", 1), ("dodge", "Dodge", 0), ("shooter", "Shooter", 2)):
            episodes = np.array([float(row["score"]) for row in last if row["task"] == task])
            assert cells[title] == f"{episodes.mean():.{decimals}f} ± {episodes.std():.{decimals}f}"
        assert cells["memory (MB)"] == f"{np.mean([float(row['memory_bytes']) for row in last]) / 1e6:.2f}"
        assert cells["average"] == f"{np.mean(normalised(last)):.2f}"
        assert cells["seeds"] == str(len({row["seed"] for row in last}))
    random = next(row for row in table.rows if row[0] == "random")
    episodes = np.array([float(row["score"]) for row in rows if (row["condition"], row["task"]) == ("random", "catch")])
    assert random[1] == f"{episodes.mean():.1f} ± {episodes.std():.1f}"


def normalised(rows: list[dict[str, str]]) -> list[float]:
    """From a row alone: 0 is random play, 1 the task's own DQN."""
    found = []
    for row in rows:
        score, single, random = (float(row[name]) for name in ("score", "single_score", "random_score"))
        found.append((score - random) / (single - random))
        assert float(row["normalised_score"]) == pytest.approx(found[-1])
    return found


def test_forgetting_and_transfer_can_be_recomputed_from_the_rows(store, capsys):
    cells: dict[tuple[str, str], dict[tuple[int, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in printed_rows(store, capsys):
        if row["evaluation"] == "final" and row["condition"] in ("no-reh", "RePR", "RePR-extend"):
            (value,) = normalised([row])
            cells[row["condition"], row["seed"]][int(row["num_tasks"]), row["task"]].append(value)
    found = defaultdict(lambda: defaultdict(list))
    for (condition, _), episodes in cells.items():
        at = {place: np.mean(values) for place, values in episodes.items()}
        earlier = {"catch": 1, "dodge": 2}  # task -> num_tasks when it was learnt
        forgetting = [max(at[k, t] for k in range(own, 3)) - at[3, t] for t, own in earlier.items()]
        found[condition]["forgetting"].append(np.mean(forgetting))
        found[condition]["backward transfer"].append(np.mean([at[3, t] - at[own, t] for t, own in earlier.items()]))
        found[condition]["forward transfer"].append(np.mean([at[1, "dodge"], at[2, "shooter"]]))
    (scores,) = gather_scores(read_results(store))
    table = metric_table(scores)
    assert len(table.rows) == 3
    for row in table.rows:
        shown = dict(zip(table.header, row, strict=True))
        for name, values in found[row[0]].items():
            assert float(shown[name].split(" [")[0]) == pytest.approx(np.mean(values), abs=0.005 + 1e-9)  # as printed
    # by hand, RePR's second seed: Catch from 1.0 to 0.4, Dodge from 0.9 to 0.7; the first: 0.2 and 0.4
    assert np.mean(found["RePR"]["forgetting"]) == pytest.approx(((0.6 + 0.2) / 2 + 0.3) / 2)


def test_undefined_scores_are_empty(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handmade, "SINGLE", (0.4, 100.0, 1.0))  # on Catch, 0.4 against 0: within their intervals
    store = make_store(tmp_path / "run", {"RePR": KEEPS})
    rows = printed_rows(store, capsys)
    assert {row["task"] for row in rows if row["normalised_score"] == ""} == {"catch"}
    assert {row["task"] for row in rows if row["normalised_score"] != ""} == {"dodge", "shooter"}
    assert {row["single_score"] for row in rows if row["task"] == "catch"} == {"0.4"}  # the scores themselves are there
    assert cli.main(["results", str(store.folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["task"] for row in document["rows"] if row["normalised_score"] is None} == {"catch"}


def test_unfinished_run_has_the_rows_of_its_finished_stages(tmp_path: Path, capsys):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, until=lambda condition, seed: 1)
    rows = printed_rows(store, capsys)
    assert {row["num_tasks"] for row in rows if row["condition"] == "RePR"} == {"1"}
    assert {row["condition"] for row in rows} == {"RePR", "single", "random"}


def test_user_errors_are_one_line(tmp_path: Path, capsys):
    assert cli.main(["results", str(tmp_path), "--csv"]) == 2
    assert "is not a run of reaper" in capsys.readouterr().err
    assert cli.main(["results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["results", str(tmp_path), "--csv", "--json"]) == 2


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_files_of_every_format_can_be_read(suffix, tmp_path, store):
    """The same shrunk study, written by each released version."""
    samples = [tidy.read_rows(SAMPLES / f"results-{number}.{suffix}") for number in (1, 2)]
    assert len(samples[0]) == 28
    assert samples[0] == samples[1]
    first = {"condition": "RePR", "num_tasks": 1, "evaluation": "periodic", "agent_steps": 120, "score": -12.0}
    assert first.items() <= samples[0][0].items()
    assert samples[0][-1]["memory_bytes"] is None
    write = tidy.as_csv if suffix == "csv" else tidy.as_json
    path = tmp_path / f"now.{suffix}"
    path.write_text(write(read_results(store), 1.0))
    assert tidy.read_rows(path) == list(tidy.all_rows(read_results(store), 1.0))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "format,condition\n9,x\n"])
def test_other_files_are_refused_in_one_line(tmp_path, text):
    path = tmp_path / "other.csv"
    path.write_text(text)
    if text:
        with pytest.raises(UserError, match="is not a results file of reaper"):
            tidy.read_rows(path)
    else:
        assert tidy.read_rows(path) == []
