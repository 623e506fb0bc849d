"""Stores made by hand, of stages without any training: what verifying, packing, merging and finding say about them."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reaper.errors import DamagedArtefact, StorageFailed, UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage import store as store_module
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.exported_memory import ExportedMemory, read_memory, to_half, write_exported
from reaper.storage.files import checksummed, storing
from reaper.storage.find import RunChoice, choose_memory, find_memory
from reaper.storage.locks import Lock
from reaper.storage.manifests import FileEntry, Provenance, StageManifest
from reaper.storage.model_folder import is_model_folder, read_model, write_model
from reaper.storage.pack import export_run, export_stages, export_weights, import_pack
from reaper.storage.records import ContinuedFrom, ExperimentRecord, RunRecord, StageEntry, StoreHeader
from reaper.storage.store import Store, _may_be_store
from reaper.storage.transfer import NO_CHECKPOINT, pack, pack_checkpoint, unpack_checkpoint, unpack_stage
from reaper.storage.verify import set_aside, verify

HEADER = StoreHeader("1", "arcade", 1.0, {"a": {"b": 1}})
TEACHER = StageManifest({"kind": "learn", "parents": {}}, "learn catch")
MEMORY = StageManifest({"kind": "consolidate", "parents": {"teacher": TEACHER.digest}}, "consolidate catch")
EVALUATION = StageManifest({"kind": "evaluate", "parents": {"subject": MEMORY.digest}}, "evaluate catch")
STAGES = (TEACHER, MEMORY, EVALUATION)
RUN = RunRecord(
    name="RePR--catch--seed-0",
    condition={"name": "RePR"},
    sequence="catch",
    tasks=("catch",),
    titles=("Catch",),
    num_actions=6,
    seed=0,
    command="reaper run RePR --tasks catch",
    settings={},
    teachers=(TEACHER.digest,),
    generators=(),
    memories=(MEMORY.digest,),
    evaluations=(EVALUATION.digest,),
    singles=(),
    random=None,
    stages={each.digest: StageEntry.of(each.title, each.parents) for each in STAGES},
)


def make(folder: Path, stages=STAGES, runs=(RUN,)) -> Store:
    store = Store.open_for(folder, HEADER)
    for record in runs:
        store.write_run(record)
    for stage in stages:
        memory = {"memory": {"tasks": ["catch"], "bytes": 8}} if stage is MEMORY else {}
        tensors = {"agent": {"w": torch.arange(2.0)}}
        store.write_stage(stage, tensors, {"rows": [stage.title], **memory}, Provenance(seconds=2.0))
    store.close()
    return store


def spoil(store: Store, stage: StageManifest, name: str = "rows.json") -> Path:
    path = store.path_of(stage.digest) / name
    path.write_bytes(path.read_bytes()[:-1])
    return path


# -- verifying


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


# -- the folder as a whole


@pytest.mark.parametrize(
    ("present", "may"),
    [
        (set(), True),
        ({"locks", ".x.part"}, True),
        ({"reaper.json", "letter.txt"}, True),
        ({"letter.txt"}, False),
        ({"stages", "runs"}, False),
        ({"damaged", "stages", "runs", "report"}, True),
        ({"damaged", "letter.txt"}, False),
    ],
)
def test_which_folders_may_be_stores(present, may):
    assert _may_be_store(present) is may


@pytest.mark.parametrize(
    ("given", "now", "what"),
    [
        ({"a.b": 1}, {}, r"--a\.b 1 was given, and not now"),
        ({}, {"a.b": 1}, r"--a\.b was not given"),
        ({"a.b": 1, "c.d": 2}, {"a.b": 1, "c.d": 3}, r"--c\.d 2 was given, and not now"),
    ],
)
def test_values_that_the_user_gave_are_compared_where_both_are_known(tmp_path, given, now, what):
    Store.open_for(tmp_path / "out", replace(HEADER, user_values=given)).close()
    Store.open_for(tmp_path / "out", replace(HEADER, user_values=given)).close()
    Store.open_for(tmp_path / "out", HEADER).close()  # not known
    with pytest.raises(UserError, match=what):
        Store.open_for(tmp_path / "out", replace(HEADER, user_values=now))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"preset": "paper"}, "preset: preset was arcade, now paper"),
        ({"fraction": 0.5}, r"fraction: fraction was 1\.0, now 0\.5"),
        ({"settings": {}}, "settings: a was .*, now the default"),
        ({"settings": {"a": {"b": 1, "c": 2}}}, r"settings: a\.c was the default, now 2"),
    ],
)
def test_another_study_is_refused_with_the_first_difference(tmp_path, changes, what):
    Store.open_for(tmp_path / "out", HEADER).close()
    with pytest.raises(UserError, match=what):
        Store.open_for(tmp_path / "out", replace(HEADER, **changes))


@pytest.mark.parametrize(
    ("format_", "what"), [(2, r"an earlier version of reaper \(format 2\); `reaper convert"), (4, "a newer version")]
)
def test_stores_of_other_formats_are_refused_and_not_written_to(tmp_path, format_, what):
    make(tmp_path / "out")
    path = tmp_path / "out" / "reaper.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": format_}))
    (tmp_path / "out" / "locks" / "run").unlink()
    with pytest.raises(UserError, match=what):
        Store.open_for(tmp_path / "out", HEADER)
    assert not (tmp_path / "out" / "locks" / "run").exists()
    path.write_text('{"format": "3"}')
    with pytest.raises(DamagedArtefact):
        Store.open(tmp_path / "out")


def test_what_killed_processes_left_is_swept_unless_the_store_is_shared(tmp_path):
    out = tmp_path / "out"
    store = make(out)

    def litter():
        for name in (".a.part", "stages/.b.part", "tensorboard/x/y/.c.part", f"unfinished/{TEACHER.digest}/1"):
            (out / name).mkdir(parents=True)
        (out / "runs" / ".d.part").touch()
        (out / "locks" / TEACHER.digest).touch()
        (out / "unfinished" / ("e" * 20)).mkdir(exist_ok=True)

    def found():
        litter = {".a.part", ".b.part", ".c.part", ".d.part"}
        names = {path.name for path in out.rglob("*") if path.name in litter}
        return names | {path.relative_to(out).parts[0] for path in out.glob(f"[lu]*/{TEACHER.digest}")}

    litter()
    held = store.stage_lock("f" * 20)
    assert held.take()
    Store.open_for(out, HEADER, shared=True).close()
    assert found() == {".a.part", ".b.part", ".c.part", ".d.part", "locks", "unfinished"}
    Store.open_for(out, HEADER).close()
    assert found() == set()
    assert store.unfinished("e" * 20).is_dir(), "its stage is not finished"
    assert (out / "locks" / ("f" * 20)).exists(), "somebody holds it"
    assert (out / "locks" / "run").exists()


def test_two_share_a_store_only_if_both_do(tmp_path):
    first = Store.open_for(tmp_path / "out", HEADER, shared=True)
    Store.open_for(tmp_path / "out", HEADER, shared=True).close()
    with pytest.raises(UserError, match=r"another run is writing .*; --share lets several work on one"):
        Store.open_for(tmp_path / "out", HEADER)
    first.close()
    alone = Store.open_for(tmp_path / "out", HEADER)
    with pytest.raises(UserError, match=r"wait for it or choose another --out$"):
        Store.open_for(tmp_path / "out", HEADER, shared=True)
    alone.close()


def test_a_stage_that_is_not_there_and_a_store_that_is_gone(tmp_path):
    store = make(tmp_path / "out", stages=(TEACHER,))
    assert (store.stages(), store.unfinished_stages()) == ([TEACHER.digest], [])
    assert Store(tmp_path / "nowhere").stages() == []
    with pytest.raises(UserError, match="the run is not finished"):
        store.stage(MEMORY.digest)
    (tmp_path / "out" / "reaper.json").unlink()
    with pytest.raises(StorageFailed, match="is gone; restore it"):
        store.stage(MEMORY.digest)


def test_a_record_or_provenance_of_another_name_is_damage(tmp_path):
    store = make(tmp_path / "out")
    runs = tmp_path / "out" / "runs"
    (runs / "other.json").write_bytes((runs / f"{RUN.name}.json").read_bytes())
    with pytest.raises(DamagedArtefact, match="is the record of a run of another name"):
        store.check_records()
    provenance = store.path_of(TEACHER.digest) / "provenance.json"
    provenance.write_bytes((store.path_of(MEMORY.digest) / "provenance.json").read_bytes())
    with pytest.raises(DamagedArtefact, match="belongs to another stage"):
        store.stage(TEACHER.digest).provenance()
    (store.path_of(MEMORY.digest)).rename(store.path_of("f" * 20))
    with pytest.raises(DamagedArtefact, match="holds another stage than its name says"):
        store.stage("f" * 20)


@pytest.mark.parametrize(
    ("reason", "kind", "hint"),
    [(errno.ENOSPC, StorageFailed, "free space or repair it"), (errno.EACCES, UserError, "")],
)
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch, reason, kind, hint):
    def fail(self, **options):
        raise OSError(reason, "because")

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(kind, match=f"cannot write to .*: because{'; ' + hint if hint else '$'}"):
        Store.open_for(tmp_path / "out", HEADER)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some space"),
        (OSError(errno.EDQUOT, "Disk Quota exceeded"), "free some space"),
        (OSError(errno.EROFS, "Read-only file system"), "make it writable"),
    ],
)
def test_a_failed_write_says_what_to_do(error, hint):
    with pytest.raises(StorageFailed, match=f"cannot write x: {error.strerror}; {hint} and run"), storing(Path("x")):
        raise error


# -- packs


def contents(folder: Path) -> dict[str, bytes]:
    parts = ("locks", "unfinished")
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if p.relative_to(folder).parts[0] not in parts}


def test_a_run_is_packed_and_unpacked_with_its_newest_checkpoints(tmp_path):
    store = make(tmp_path / "out", stages=(TEACHER, MEMORY))
    checkpoints = CheckpointDir(store.unfinished(EVALUATION.digest), EVALUATION.digest)
    for _ in range(2):
        checkpoints.write({"x": torch.ones(1)}, {})
    experiment = ExperimentRecord("o--c", "o", "c", ("catch",), ("Catch",), 0, "", (RUN.name,), ())
    store.write_experiment(experiment)
    said = export_run(tmp_path / "out", tmp_path / "a.reaper")
    assert said == "1 runs, 2 finished stages and 2 checkpoints"
    assert import_pack(tmp_path / "a.reaper", tmp_path / "new", lambda found: None) == "1 runs, 2 new stages"
    assert contents(tmp_path / "new") == contents(tmp_path / "out")
    assert Store.open(tmp_path / "new").experiments() == [experiment]
    copy = CheckpointDir(Store(tmp_path / "new").unfinished(EVALUATION.digest), EVALUATION.digest)
    assert copy.numbers() == [1, 2]
    again = import_pack(tmp_path / "a.reaper", tmp_path / "new", lambda found: None)
    assert again == "1 runs, 0 new stages, 2 known"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.reaper", "new", "out"]


def test_files_left_out_of_a_pack_are_listed_and_come_back_with_a_whole_one(tmp_path):
    store, none = make(tmp_path / "out"), lambda found: None
    kept = {TEACHER.digest: ["rows.json"], MEMORY.digest: ["rows.json", "memory.json", "agent.safetensors"]}
    said = export_stages(store, tmp_path / "some.reaper", kept)
    assert said == "2 finished stages, 1 of them without some files"
    assert import_pack(tmp_path / "some.reaper", tmp_path / "new", none) == "1 runs, 2 new stages"
    teacher = Store.open(tmp_path / "new").stage(TEACHER.digest)
    assert (set(teacher.files), set(teacher.left_out)) == ({"rows.json"}, {"agent.safetensors"})
    with pytest.raises(UserError, match="was left out when its run was packed"):
        teacher.tensors("agent")
    teacher_says = [str(each) for each in verify(tmp_path / "new") if TEACHER.digest in each.what]
    assert len(teacher_says) == 1
    assert teacher_says[0].startswith("harmless: ")
    assert "lacks agent.safetensors; left out of the pack it came in; learn catch: run again" in teacher_says[0]
    export_run(tmp_path / "out", tmp_path / "all.reaper")
    assert import_pack(tmp_path / "all.reaper", tmp_path / "new", none) == "1 runs, 1 new stages, 2 known"
    assert Store.open(tmp_path / "new").stage(TEACHER.digest).tensors("agent")["w"].tolist() == [0, 1]
    # A pack that has less does not take away what is there.
    import_pack(tmp_path / "some.reaper", tmp_path / "new", none)
    assert Store.open(tmp_path / "new").stage(TEACHER.digest).has("agent.safetensors")


def test_stages_with_other_results_are_not_merged(tmp_path):
    make(tmp_path / "out")
    export_run(tmp_path / "out", tmp_path / "a.reaper")
    other = Store.open_for(tmp_path / "new", HEADER)
    other.write_stage(TEACHER, {"agent": {"w": torch.ones(2)}}, {"rows": [TEACHER.title]}, Provenance())
    other.close()
    with pytest.raises(UserError, match="the same stage in the pack have different results"):
        import_pack(tmp_path / "a.reaper", tmp_path / "new", lambda found: None)
    assert Store.open(tmp_path / "new").stages() == [TEACHER.digest]


def test_one_memory_is_packed_checked_and_moved_to_an_empty_folder(tmp_path):
    make(tmp_path / "out")
    said = export_weights(tmp_path / "out", tmp_path / "m.reaper", RunChoice(), half=True)
    assert said == "the long-term memory of consolidate catch, half precision"
    assert [path.name for path in tmp_path.glob(".*")] == []
    found = find_memory(tmp_path / "m.reaper")
    assert (found.sequence, found.memory.tasks, found.memory.agent["w"].dtype) == ("catch", ("catch",), torch.float32)
    checked = []
    assert import_pack(tmp_path / "m.reaper", tmp_path / "new", checked.append) == "a long-term memory of catch"
    assert [each.memory.tasks for each in checked] == [("catch",)]
    assert find_memory(tmp_path / "new").spec == MEMORY.spec
    with pytest.raises(UserError, match="already exists; choose another folder"):
        import_pack(tmp_path / "m.reaper", tmp_path / "new", checked.append)
    (tmp_path / "empty").mkdir()
    import_pack(tmp_path / "m.reaper", tmp_path / "empty", checked.append)
    with pytest.raises(UserError, match="holds a whole run"):
        find_memory(Path(export_run(tmp_path / "out", tmp_path / "r.reaper") and tmp_path / "r.reaper"))


# -- memories


def test_half_precision_is_for_weights_only(tmp_path):
    memory = LongTermMemory(
        {"w": torch.tensor([0.1]), "n": torch.tensor([3])},
        ("catch",),
        {"generator.w": torch.tensor([0.2]), "fisher.w": torch.tensor([1e9])},
    )
    half = to_half(memory)
    assert {name: t.dtype for name, t in (*half.agent.items(), *half.retained.items())} == {
        "w": torch.float16,
        "n": torch.int64,
        "generator.w": torch.float16,
        "fisher.w": torch.float32,
    }
    with pytest.raises(UserError, match=r"generator\.w has values too large"):
        to_half(replace(memory, retained={"generator.w": torch.tensor([1e9])}))


def test_an_exported_memory_says_where_it_comes_from(tmp_path):
    store = make(tmp_path / "out")
    write_exported(tmp_path / "full", store.stage(MEMORY.digest), replace(RUN, titles=("Catch", "Dodge")))
    exported = ExportedMemory(tmp_path / "full")
    manifest = exported.manifest
    assert (manifest.precision, manifest.stage, manifest.titles) == ("full", MEMORY.digest, ("Catch",))
    assert exported.read().agent["w"].tolist() == [0, 1]
    assert not exported.has("retained.safetensors")
    with pytest.raises(UserError, match="holds no long-term memory that was exported"):
        ExportedMemory(store.path_of(MEMORY.digest))
    path = tmp_path / "full" / "manifest.json"
    value = {name: part for name, part in json.loads(path.read_text()).items() if name != "checksum"}
    path.write_bytes(checksummed({**value, "format": 9}))
    with pytest.raises(UserError, match=r"another version of reaper \(format 9\)"):
        ExportedMemory(tmp_path / "full")


@pytest.mark.parametrize("document", [[], {"tasks": []}, {"tasks": "catch"}, {"tasks": ["catch", 3]}, {}])
def test_a_memory_names_its_tasks(tmp_path, document):
    store = make(tmp_path / "out", stages=())
    store.write_stage(MEMORY, {"agent": {}}, {"memory": document}, Provenance())
    with pytest.raises(DamagedArtefact, match="names no tasks"):
        read_memory(store.stage(MEMORY.digest))


def test_a_memory_is_chosen_by_condition_seed_and_sequence(tmp_path):
    records = (
        RUN,
        replace(RUN, name="RePR--catch--seed-1", seed=1),
        replace(RUN, name="PR--x", condition={"name": "PR"}),
    )
    store = make(tmp_path / "out", runs=(*records, replace(RUN, name="RePR--other", sequence="other")))
    assert choose_memory(store, RunChoice(seed=1)) == (records[1], MEMORY.digest)
    assert choose_memory(store, RunChoice("RePR", sequence="catch"))[0].seed == 0  # the first of several seeds
    for choice in (RunChoice(), RunChoice("RePR"), RunChoice(seed=0), RunChoice(sequence="catch")):
        with pytest.raises(UserError, match="holds several runs; choose one"):
            choose_memory(store, choice)
    with pytest.raises(UserError, match="no run with seed 7; it has PR--x, RePR--catch--seed-0"):
        choose_memory(store, RunChoice(seed=7))
    assert str(RunChoice()) == "a long-term memory"
    for number in (0, 2):
        with pytest.raises(UserError, match=f"must be 1 to 1, not {number}"):
            choose_memory(store, RunChoice("PR"), number)
    assert choose_memory(store, RunChoice("PR"), 1)[1] == MEMORY.digest


def test_the_folder_of_a_model_hub(tmp_path):
    memory = LongTermMemory({"w": torch.arange(3.0)}, ("catch", "a" * 80), {"x": torch.ones(1)})
    write_model(tmp_path, memory, {"num_actions": 6, "settings": {}}, note="mine")
    assert is_model_folder(tmp_path)
    found, config = read_model(tmp_path)
    assert (found.tasks, found.agent["w"].tolist(), found.retained) == (memory.tasks, [0, 1, 2], {})
    assert (config["format"], config["axes"], config["note"]) == (1, None, "mine")
    assert find_memory(tmp_path).sequence == ("catch," + "a" * 80)[:60]
    for changes, why in [
        ({"library_name": "other"}, "names another library"),
        ({"format": 2}, r"another version of reaper \(format 2\)"),
        ({"tasks": []}, "names no tasks"),
        ({"tasks": "catch"}, "names no tasks"),
        ({"tasks": [1]}, "names no tasks"),
    ]:
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        with pytest.raises(UserError, match=why):
            read_model(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="names another library"):
        read_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert not is_model_folder(tmp_path)


# -- between machines


def test_a_stage_that_arrives_replaces_damage_only_and_ends_its_checkpoints(tmp_path):
    sender, receiver = make(tmp_path / "from"), make(tmp_path / "to", stages=(TEACHER,))
    files = pack(sender.path_of(TEACHER.digest))
    CheckpointDir(receiver.unfinished(TEACHER.digest), TEACHER.digest).write({}, {})
    before = (receiver.path_of(TEACHER.digest) / "manifest.json").stat().st_ino
    unpack_stage(files, receiver, TEACHER.digest)
    assert (receiver.path_of(TEACHER.digest) / "manifest.json").stat().st_ino == before, "it was intact"
    assert not receiver.unfinished(TEACHER.digest).exists()
    spoil(receiver, TEACHER)
    unpack_stage(files, receiver, TEACHER.digest)
    receiver.stage(TEACHER.digest).check()
    spoil(sender, MEMORY)
    with pytest.raises(DamagedArtefact):
        pack(sender.path_of(MEMORY.digest))


def test_checkpoints_that_arrive_are_newer_or_left_alone(tmp_path):
    sender, receiver = make(tmp_path / "from"), make(tmp_path / "to")
    digest = "0" * 20
    assert pack_checkpoint(sender, digest) == NO_CHECKPOINT
    unpack_checkpoint(NO_CHECKPOINT, receiver, digest)
    assert not receiver.unfinished(digest).exists()
    ours, theirs = (CheckpointDir(each.unfinished(digest), digest) for each in (sender, receiver))
    ours.write({}, {"from": "ours"})
    unpack_checkpoint(pack_checkpoint(sender, digest), receiver, digest)
    assert theirs.newest()[0] == {"from": "ours"}
    theirs.write({}, {"from": "theirs"})
    ours.write({}, {"from": "ours"})
    unpack_checkpoint(pack_checkpoint(sender, digest), receiver, digest)
    assert (theirs.numbers(), theirs.newest()[0]) == ([1, 2], {"from": "theirs"})
    with pytest.raises(DamagedArtefact, match="was sent something else than"):
        unpack_checkpoint((3, pack_checkpoint(sender, digest)[1]), receiver, "1" * 20)


# -- checksums


def test_entries_of_files_are_checked():
    good = {"bytes": 0, "sha256": "0" * 64}
    assert FileEntry.parse(good).bytes == 0
    for wrong in ({**good, "bytes": -1}, {**good, "sha256": "0" * 63}, {**good, "more": 1}, {"bytes": 0}):
        with pytest.raises((ValueError, KeyError)):
            FileEntry.parse(wrong)


def test_a_folder_with_other_files_is_refused(tmp_path):
    stage = make(tmp_path / "out").stage(TEACHER.digest)
    stage.check_nothing_else()
    (stage.folder / "extra.json").touch()
    with pytest.raises(DamagedArtefact, match=r"holds files that its manifest does not list \(extra\.json\)"):
        stage.check_nothing_else()


def test_a_lock_without_support_of_the_file_system_is_one_line(tmp_path, monkeypatch):
    def fail(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(UserError, match=r"cannot be locked \(No locks available\); choose an --out"):
        Lock(tmp_path / "lock").take()


def test_what_a_process_of_this_machine_holds_is_its_own(tmp_path):
    assert store_module.HEADER == "reaper.json"
    lock = Lock(tmp_path / "lock")
    assert lock.take()
    os.replace(tmp_path / "lock", tmp_path / "moved")
    assert Lock(tmp_path / "lock").take(), "a file of the same name is another lock"
