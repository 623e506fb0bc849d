"""Verifying a store: what is said about each kind of damage, and what is set aside."""

from dataclasses import replace

import pytest
from small_store import EVALUATION, MEMORY, RUN, TEACHER, make, spoil

from reaper.errors import UserError
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.locks import Lock
from reaper.storage.records import ContinuedFrom, StageEntry
from reaper.storage.store import Store
from reaper.storage.verify import set_aside, verify


def test_an_intact_store_has_no_problems(tmp_path):
    make(tmp_path / "out")
    assert verify(tmp_path / "out") == []
    with pytest.raises(UserError, match=r"is not a run of reaper: it has no reaper\.json"):
        verify(tmp_path)


def test_each_damaged_stage_is_named_with_its_parents_and_its_command(tmp_path):
    store = make(tmp_path / "out")
    spoil(store, TEACHER)
    spoil(store, MEMORY, "agent.safetensors")
    command = f"`reaper run RePR --tasks catch --out {tmp_path / 'out'}`"
    problems = {problem.path: problem for problem in verify(tmp_path / "out")}
    assert set(problems) == {store.path_of(TEACHER.digest), store.path_of(MEMORY.digest)}
    teacher, memory = (problems[store.path_of(each.digest)] for each in (TEACHER, MEMORY))
    assert teacher.what == f"{store.path_of(TEACHER.digest) / 'rows.json'} does not match its checksum"
    assert teacher.remedy == f"learn catch: run again from scratch by {command}"
    assert memory.remedy == f"consolidate catch: run again from 'learn catch' (damaged, too) by {command}"
    assert (teacher.damaged, teacher.harmless, teacher.movable) == (True, False, True)
    assert str(teacher) == f"{teacher.what}; {teacher.remedy}"


def test_a_missing_parent_is_reported_with_what_needs_it(tmp_path):
    store = make(tmp_path / "out", stages=(TEACHER, EVALUATION))
    (problem,) = verify(tmp_path / "out")
    assert problem.path == store.path_of(MEMORY.digest)
    assert problem.what.endswith("a parent of 'evaluate catch', is missing")
    assert "run again from 'learn catch' (intact) by" in problem.remedy
    store = make(tmp_path / "other", stages=(EVALUATION,))
    spoil(store, EVALUATION)
    (problem,) = verify(tmp_path / "other")
    assert "from 'consolidate catch' (missing, run first) by" in problem.remedy


def test_an_imported_memory_is_imported_again(tmp_path):
    run = replace(RUN, tasks=("catch", "dodge"), titles=("Catch", "Dodge"), continued=ContinuedFrom("x", "y", 1))
    two = {role: (*getattr(RUN, role), "c" * 20) for role in ("teachers", "memories", "evaluations")}
    store = make(tmp_path / "out", runs=(replace(run, **two),))
    spoil(store, MEMORY)
    spoil(store, EVALUATION)
    memory, evaluation = sorted(verify(tmp_path / "out"), key=lambda problem: problem.remedy)
    assert memory.remedy.startswith("consolidate catch: imported again by `reaper run")
    assert evaluation.remedy.startswith("evaluate catch: run again from 'consolidate catch' (damaged, too)")


def test_stages_without_a_record_are_reported_once_unless_a_record_is_broken(tmp_path):
    store = make(tmp_path / "out", runs=())
    (problem,) = verify(tmp_path / "out")
    assert problem.what.startswith(
        f"{tmp_path / 'out' / 'runs'} lacks a record: 3 stages belong to no run, for example"
    )
    assert (problem.remedy, problem.movable) == ("rewritten by the command of that run", False)
    assert set_aside(tmp_path / "out", [problem]) == []
    spoil(store, TEACHER)
    remedies = {problem.remedy for problem in verify(tmp_path / "out")}
    assert "recreated by the command of its run, whose record is missing" in remedies
    store = make(tmp_path / "broken")
    (tmp_path / "broken" / "runs" / f"{RUN.name}.json").write_text("{}")
    (problem,) = verify(tmp_path / "broken")
    assert problem.path.name == f"{RUN.name}.json"


def test_a_damaged_header_is_rewritten_by_the_only_command(tmp_path):
    make(tmp_path / "out", runs=(RUN, replace(RUN, name="RePR--catch--seed-1", seed=1)))
    (tmp_path / "out" / "reaper.json").write_text("{}")
    (problem,) = verify(tmp_path / "out")
    assert problem.remedy == f"rewritten by `reaper run RePR --tasks catch --out {tmp_path / 'out'}`"
    other = replace(RUN, name="RePR--catch--seed-2", command="reaper run other", stages={"d" * 20: StageEntry("x", ())})
    Store(tmp_path / "out").write_run(other)
    (problem,) = verify(tmp_path / "out")
    assert problem.remedy == "rewritten by the command of its run"


def test_damaged_checkpoints_and_leftovers(tmp_path):
    store = make(tmp_path / "out", stages=(TEACHER,))
    checkpoints = CheckpointDir(store.unfinished(MEMORY.digest), MEMORY.digest)
    for _ in range(2):
        checkpoints.write({}, {"n": 1})
    (checkpoints.folder / "2" / "others.json").write_text("[]")
    (problem,) = verify(tmp_path / "out")
    assert problem.path == checkpoints.folder / "2"
    assert (problem.remedy, problem.harmless) == ("consolidate catch resumes from checkpoint 1", True)
    assert str(problem).startswith("harmless: ")
    (checkpoints.folder / "1" / "others.json").write_text("[]")
    problems = verify(tmp_path / "out")
    assert [problem.path.name for problem in problems] == ["1", "2"]
    assert {problem.harmless for problem in problems} == {False}
    assert problems[0].remedy == "consolidate catch starts from scratch once this is set aside (--set-aside)"
    for name in (".a.part", "stages/.b.part", f"unfinished/{MEMORY.digest}/.c.part"):
        (tmp_path / "out" / name).mkdir()
    left = [problem for problem in verify(tmp_path / "out") if not problem.damaged]
    assert [problem.path.name for problem in left] == [".a.part", ".b.part", ".c.part"]
    assert all(problem.harmless for problem in left)
    finished = CheckpointDir(store.unfinished(TEACHER.digest), TEACHER.digest)
    finished.write({}, {})
    (problem,) = [each for each in verify(tmp_path / "out") if each.path == finished.folder]
    assert problem.remedy == "its stage is finished, and the next run removes it"


def test_damage_is_set_aside_under_a_name_of_its_own_and_only_without_a_writer(tmp_path):
    out = tmp_path / "out"
    for expected in (TEACHER.digest, f"{TEACHER.digest}.1", f"{TEACHER.digest}.2"):
        store = make(out)
        spoil(store, TEACHER)
        (moved,) = set_aside(out, verify(out) * 2)
        assert moved == out / "damaged" / "stages" / expected
        assert not store.has(TEACHER.digest)
    lock = Lock(out / "locks" / "run")
    assert lock.take()
    with pytest.raises(UserError, match="another run is writing"):
        set_aside(out, [])
    lock.release()
    assert set_aside(out, []) == []
