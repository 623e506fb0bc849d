"""A run that is killed at any moment, any number of times, results in the same bytes as one that never was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from curves import read_curves, same_curves
from killing import artefacts

KILLER = Path(__file__).parent / "killer.py"


def kill_and_compare(tmp_path, kills, conditions, mode="random"):
    command = [sys.executable, str(KILLER), str(tmp_path), str(kills), "1", mode, *conditions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] == kills
    expected = artefacts(tmp_path / "whole")
    for run in range(report["runs"]):
        found = artefacts(tmp_path / str(run))
        assert set(expected) == set(found)
        assert [name for name in expected if expected[name] != found[name]] == []
        assert not list((tmp_path / str(run)).glob("unfinished/*/*"))
        assert not list((tmp_path / str(run)).glob("live/*"))
        same_curves(read_curves(tmp_path / "whole"), read_curves(tmp_path / str(run)))
    return report


def test_a_killed_run_results_in_the_same_bytes(tmp_path):
    report = kill_and_compare(tmp_path, 6, ["RePR"])
    assert report["resumed"] >= 3  # most attempts resumed in the middle of a stage


@pytest.mark.long
def test_ten_kills_of_a_sequence_with_vectors(tmp_path):
    report = kill_and_compare(tmp_path, 10, ["RePR"], mode="vectors")
    assert report["resumed"] >= 4


@pytest.mark.long
@pytest.mark.parametrize(("experiment", "hits"), [("item-quality", {"student": 6}), ("overlap", {"fisher": 4})])
def test_stages_of_analyses_resume_exactly(tmp_path, experiment, hits):
    command = [sys.executable, str(KILLER.with_name("analyses_killer.py")), str(tmp_path), experiment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    hit = json.loads(done.stdout.splitlines()[-1])
    assert {kind: hit.count(kind) for kind in set(hit)} == hits  # every one of them, in its middle
    assert artefacts(tmp_path / "killed") == artefacts(tmp_path / "whole")


@pytest.mark.long
def test_thirty_kills_that_hit_every_kind_of_stage(tmp_path):
    report = kill_and_compare(tmp_path, 30, ["RePR"], mode="every-kind")
    assert {"short-term", "consolidate", "evaluate"} <= set(report["hit"])


@pytest.mark.long
@pytest.mark.parametrize("condition", ["DGDMN", "PR", "ewc", "online-ewc", "reh", "reh-limit-comp"])
def test_every_condition_resumes_exactly(tmp_path, condition):
    kill_and_compare(tmp_path, 12, [condition])


@pytest.mark.long
def test_concurrent_evaluations_survive_kills(tmp_path):
    kill_and_compare(tmp_path, 12, ["RePR"], mode="concurrent-eval")


def test_a_consolidation_from_a_file_resumes_exactly_without_the_file(tmp_path):
    command = [sys.executable, str(KILLER.with_name("teachers_killer.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.splitlines()[-1]) == 4
    assert artefacts(tmp_path / "killed") == artefacts(tmp_path / "whole")
