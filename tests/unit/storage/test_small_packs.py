"""Packing, merging and unpacking stores made by hand."""

from pathlib import Path

import pytest
import torch
from small_store import EVALUATION, HEADER, MEMORY, RUN, TEACHER, make

from reaper.errors import UserError
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.find import RunChoice, find_memory
from reaper.storage.manifests import Provenance
from reaper.storage.pack import export_run, export_stages, export_weights, import_pack
from reaper.storage.records import ExperimentRecord
from reaper.storage.store import Store
from reaper.storage.verify import verify


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
