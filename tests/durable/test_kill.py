"""A run that is killed at any moment, any number of times, ends with the same bytes as one that never was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from curves import read_curves, same_curves

KILLER = Path(__file__).parent / "killer.py"


def artefacts(out):
    """Every file that makes up the results, but for the record of when and where they were made."""
    found = [
        p for folder in ("stages", "runs", "experiments") for p in sorted((out / folder).rglob("*")) if p.is_file()
    ]
    return {
        str(p.relative_to(out)): p.read_bytes() for p in [*found, out / "reaper.json"] if p.name != "provenance.json"
    }


def compare(tmp_path, kills, conditions, when="random"):
    words = [sys.executable, str(KILLER), str(tmp_path), str(kills), "1", when, *conditions]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] == kills
    expected = artefacts(tmp_path / "whole")
    for run in range(told["runs"]):
        found = artefacts(tmp_path / str(run))
        assert set(expected) == set(found)
        assert [name for name in expected if expected[name] != found[name]] == []
        assert not list((tmp_path / str(run)).glob("unfinished/*/*"))
        assert not list((tmp_path / str(run)).glob("live/*"))
        same_curves(read_curves(tmp_path / "whole"), read_curves(tmp_path / str(run)))
    return told


def test_a_killed_run_ends_with_the_same_bytes(tmp_path):
    told = compare(tmp_path, 8, ["RePR"])
    assert told["resumed"] >= 4  # most attempts went on from the middle of a stage


@pytest.mark.parametrize(
    ("experiment", "hit"),
    [("item-quality", {"student": 6}), pytest.param("overlap", {"fisher": 4}, marks=pytest.mark.long)],
)
def test_stages_of_analyses_resume_exactly(tmp_path, experiment, hit):
    words = [sys.executable, str(KILLER.with_name("analyses_killer.py")), str(tmp_path), experiment]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert {kind: told.count(kind) for kind in set(told)} == hit  # every one of them, in its middle
    assert artefacts(tmp_path / "killed") == artefacts(tmp_path / "whole")


@pytest.mark.long
def test_thirty_kills_that_hit_every_kind_of_stage(tmp_path):
    told = compare(tmp_path, 30, ["RePR"], when="every-kind")
    assert {"short-term", "consolidate", "evaluate"} <= set(told["hit"])


@pytest.mark.long
@pytest.mark.parametrize("condition", ["DGDMN", "PR", "ewc", "online-ewc", "reh", "reh-limit-comp"])
def test_every_condition_resumes_exactly(tmp_path, condition):
    compare(tmp_path, 12, [condition])


@pytest.mark.long
def test_tests_beside_training_survive_kills(tmp_path):
    compare(tmp_path, 12, ["RePR"], when="beside")
