"""Evaluating a policy from elsewhere: one more row of a report."""

import numpy as np
import pytest
from conftest import TINY, run_tiny
from unit.teachers.zips import write_sb3

from reaper.cli.main import main
from reaper.results.runs import read_results
from reaper.results.tidy import all_rows
from reaper.storage.store import Store

SETTINGS = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]


@pytest.fixture
def out(tmp_path):
    """A finished run of no-reh on two tasks."""
    run_tiny(tmp_path / "run", ["no-reh"], "catch,dodge")
    return tmp_path / "run"


def evaluate(source, out, *words):
    return main(["evaluate", source, "--tasks", "catch,dodge", "--out", str(out), "--quiet", *words, *SETTINGS])


def test_a_function_is_a_row_of_the_same_report(out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policy.py").write_text("import numpy as np\nstay = lambda states: np.eye(6)[[0] * len(states)]\n")
    assert evaluate("my_policy:stay", out, "--workers", "1", "--device", "cpu") == 0
    printed = capsys.readouterr().out
    assert "my_policy-stay" in printed
    assert "no-reh" in printed
    mine, other = sorted(read_results(Store.open(out)), key=lambda result: result.name)
    assert mine.finished
    assert (mine.sequence, mine.tasks) == (other.sequence, other.tasks)
    assert np.array_equal(mine.single, other.single)  # the same references normalise both
    assert np.array_equal(mine.random, other.random)
    assert mine.scores.shape == other.scores.shape
    assert np.array_equal(mine.scores[0], mine.scores[1])
    rows = [row for row in all_rows([mine, other], 1.0) if row["condition"] == "my_policy-stay"]
    assert {row["task"] for row in rows} == {"catch", "dodge"}
    assert [row["score"] for row in rows if row["num_tasks"] == 2] == mine.scores[1].ravel().tolist()
    page = (out / "report" / "index.html").read_text()
    assert "my_policy-stay" in page
    assert main(["verify", str(out)]) == 0


def test_it_needs_no_other_run_and_meets_the_episodes_of_its_seed(tmp_path):
    source = write_sb3(tmp_path / "agent.zip")
    assert evaluate(source, tmp_path / "run", "--name", "mine", "--workers", "1", "--device", "cpu") == 0
    (result,) = read_results(Store.open(tmp_path / "run"))
    assert result.name == "mine"
    assert result.finished
    assert not np.isnan(result.final).any()
    assert np.isnan(result.single).all()
    # As `single` of a study that this agent teaches: one agent, one score.
    words = ["consolidate", "single", "--teacher", f"catch={source}", "--teacher", f"dodge={source}"]
    assert main([*words, "--out", str(tmp_path / "taught"), "--quiet", "--workers", "1", *SETTINGS]) == 0
    (taught,) = read_results(Store.open(tmp_path / "taught"))
    assert np.array_equal(taught.single, result.final)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no_such_module:f"], "cannot be imported"),
        (["json:dumps"], "json:dumps failed"),
        (["pretrained:arcade-3", "--name", "RePR"], "RePR is a condition"),
    ],
)
def test_a_wrong_policy_is_one_line_and_nothing_is_written(words, message, tmp_path, capsys):
    assert main(["evaluate", *words, "--tasks", "catch", "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err.strip()
    assert message in errors
    assert "\n" not in errors
    assert not (tmp_path / "run").exists()
