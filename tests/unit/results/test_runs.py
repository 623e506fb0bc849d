"""Reading runs back: how far they are, and what is known of runs that continue from a memory."""

from dataclasses import replace

import numpy as np
import pytest
from handmade import KEEPS, make_store

from reaper.errors import DamagedArtefact
from reaper.results.runs import read_results, read_run, stages_of
from reaper.results.tidy import all_rows
from reaper.storage.records import ROLES, ContinuedFrom


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "out", {"RePR": KEEPS})


def test_a_finished_run(store):
    (result,) = read_results(store)
    assert (result.first, result.learnt, result.missing, result.finished) == (0, 3, 0, True)
    assert [phase.task for phase in result.phases] == ["catch", "dodge", "shooter"]
    assert [phase.agent_steps for phase in result.phases] == [40_000] * 3
    assert [len(phase.rows) for phase in result.phases] == [2, 2, 3]
    assert result.scores[2, 1].tolist() == [59.5, 60.5]
    assert result.memory_bytes == [2_500_000, 5_000_000, 7_500_000]


def test_a_run_that_has_consolidated_two_of_three_tasks(tmp_path):
    store = make_store(tmp_path / "out", {"RePR": KEEPS}, until=lambda condition, seed: 2)
    (result,) = read_results(store)
    assert (result.learnt, result.missing, result.finished) == (2, 2, False)  # a memory and its evaluation
    assert result.memory_bytes == [2_500_000, 5_000_000, None]
    assert np.isnan(result.scores[2]).all()
    assert not np.isnan(result.scores[:2]).any()


@pytest.mark.parametrize(
    ("known", "first", "learnt", "steps"), [(1, 0, 3, [0, 40_000, 40_000]), (2, 1, 4, [0, 0, 40_000])]
)
def test_of_tasks_that_were_learnt_elsewhere_only_the_last_memory_is_known(store, known, first, learnt, steps):
    """All of its memories are in this store, so that it counts more of them than there are."""
    (record,) = store.runs()
    result = read_run(store, replace(record, continued=ContinuedFrom("elsewhere", "", known)))
    assert (result.first, result.learnt) == (first, learnt)
    assert [phase.agent_steps for phase in result.phases] == steps
    assert [phase.task for phase in result.phases] == ["catch", "dodge", "shooter"]
    assert all(not phase.rows for phase in result.phases[:known])
    own = stages_of(result.record)
    for role in ROLES:
        digests = record.of_role(role)
        begin = first if role in ("memories", "evaluations") else known
        assert [digest in own for digest in digests] == [number >= begin for number in range(len(digests))], role


def test_a_record_that_does_not_fit_its_stages_is_damage(store):
    (record,) = store.runs()
    wrong = replace(record, tasks=("catch", "dodge", "other"))
    with pytest.raises(DamagedArtefact, match="and its stages do not fit together"):
        read_run(store, wrong)


def test_references_are_rows_of_their_own(store):
    rows = list(all_rows(read_results(store), 0.5))
    for condition, tasks, steps, after in (("single", 1, 40_000, "dodge"), ("random", 0, 0, "")):
        own = [row for row in rows if row["condition"] == condition and row["task"] == "dodge"]
        assert [row["episode"] for row in own] == [0, 1]
        for row in own:
            assert (row["num_tasks"], row["agent_steps"], row["after_task"]) == (tasks, steps, after)
            assert (row["fraction"], row["evaluation"], row["memory_bytes"]) == (0.5, "final", None)
    own = [row for row in rows if row["condition"] == "RePR" and row["evaluation"] == "final"]
    assert [(row["num_tasks"], row["agent_steps"]) for row in own][::6] == [(1, 40_000), (2, 80_000), (3, 120_000)]
    assert own[-1]["memory_bytes"] == 7_500_000
