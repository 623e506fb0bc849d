"""The store: stages are complete or absent, verified on every read, and written by one process."""

import json
import multiprocessing
from dataclasses import replace

import pytest
import torch
from conftest import run_tiny

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.files import canonical, digest_of
from reaper.storage.manifests import Provenance, StageManifest
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store

HEADER = StoreHeader("1", "arcade", 1.0, {"a": {"b": 1}})
MANIFEST = StageManifest({"kind": "x", "parents": {}}, "a stage")
D1 = MANIFEST.digest


def written(folder):
    store = Store.open_for(folder, HEADER)
    store.write_stage(MANIFEST, {"agent": {"w": torch.arange(4.0)}}, {"rows": [1, 2]}, Provenance(seconds=1.0))
    return store


def test_what_is_written_is_read(tmp_path):
    stage = written(tmp_path / "out").stage(D1)
    assert stage.tensors("agent")["w"].tolist() == [0, 1, 2, 3]
    assert stage.document("rows") == [1, 2]
    assert stage.provenance() == Provenance(seconds=1.0, digest=D1)
    assert not list((tmp_path / "out" / "stages").glob(".*"))


@pytest.mark.parametrize("name", ["agent.safetensors", "rows.json"])
@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "remove"])
def test_damage_is_found_on_use(tmp_path, name, damage):
    stage = written(tmp_path / "out").stage(D1)
    path = stage.folder / name
    data = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes({"truncate": data[:-1], "empty": b"", "flip": data}[damage])
    with pytest.raises(DamagedArtefact, match="is missing" if damage == "remove" else "checksum"):
        stage.tensors("agent") if name.startswith("agent") else stage.document("rows")
    with pytest.raises(DamagedArtefact):
        stage.check()


def test_a_damaged_stage_is_never_used(tmp_path, capsys):
    run_tiny(tmp_path / "out", ["no-reh"], tasks="catch,dodge")
    agent = next((tmp_path / "out" / "stages").glob("*/agent.safetensors"))
    agent.write_bytes(agent.read_bytes()[:-3])
    with pytest.raises(DamagedArtefact, match="reaper verify"):
        run_tiny(tmp_path / "out", ["no-reh", "reh"], tasks="catch,dodge")


def test_other_settings_are_refused_by_name(tmp_path):
    written(tmp_path / "out").close()
    with pytest.raises(UserError, match=r"a\.b was 1, now 2"):
        Store.open_for(tmp_path / "out", replace(HEADER, version="2", settings={"a": {"b": 2}}))
    Store.open_for(tmp_path / "out", replace(HEADER, version="2"))


def test_another_format_is_refused(tmp_path):
    written(tmp_path / "out").close()
    header = tmp_path / "out" / "reaper.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"format": 99}))
    with pytest.raises(UserError, match="newer version"):
        Store.open(tmp_path / "out")


def test_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("dear reader")
    with pytest.raises(UserError, match="not empty"):
        Store.open_for(tmp_path, HEADER)
    assert not (tmp_path / "reaper.json").exists()


def _hold(folder, ready, done):
    store = Store.open_for(folder, HEADER)
    ready.set()
    done.wait(30)
    store.close()


def test_two_writers_are_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "out", ready, done))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(UserError, match="another run is writing"):
        Store.open_for(tmp_path / "out", HEADER)
    holder.kill()
    holder.join()
    Store.open_for(tmp_path / "out", HEADER).close()


def test_equal_specs_have_equal_digests():
    assert digest_of({"a": 1, "b": [1.5, None]}) == digest_of({"b": [1.5, None], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert canonical({"b": 1, "a": 2}) == '{"a":2,"b":1}'
    assert canonical({"é": "ü"}) == r'{"\u00e9":"\u00fc"}'  # whatever the encoding of a file
    # Names of stages in all stores there are: they must never change.
    assert digest_of({"kind": "é", "parents": {}, "alpha": 0.55}) == "8b413641fcbc56a9913a"
