"""Long-term memories on disk: exported, chosen, in half precision and as model hubs hold them."""

import json
from dataclasses import replace

import pytest
import torch
from small_store import MEMORY, RUN, make

from reaper.errors import DamagedArtefact, UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage.exported_memory import ExportedMemory, read_memory, to_half, write_exported
from reaper.storage.files import checksummed
from reaper.storage.find import RunChoice, choose_memory, find_memory
from reaper.storage.manifests import Provenance
from reaper.storage.model_folder import is_model_folder, read_model, write_model


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
