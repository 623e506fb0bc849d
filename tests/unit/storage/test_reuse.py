"""Taking finished stages from packs and other output folders."""

import shutil
from dataclasses import replace

import pytest
import torch
from small_store import EVALUATION, HEADER, MEMORY, TEACHER, make, spoil

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.find import RunChoice
from reaper.storage.manifests import Provenance
from reaper.storage.pack import export_run, export_stages, export_weights, import_pack, move
from reaper.storage.reuse import held_stages, take_stages
from reaper.storage.store import Store

OTHER = replace(TEACHER, spec={**TEACHER.spec, "seed": 9})
OWN_HEADER = replace(HEADER, settings={"long_term": {"alpha": 0.2}})


@pytest.fixture(params=["folder", "pack"])
def source(request, tmp_path):
    """A teacher and an unrelated stage, in an output folder or a pack."""
    store = make(tmp_path / "out", stages=(TEACHER,))
    store.write_stage(OTHER, {"agent": {"w": torch.ones(2)}}, {"rows": []}, Provenance())
    if request.param == "folder":
        return tmp_path / "out"
    export_run(tmp_path / "out", tmp_path / "a.reaper")
    return tmp_path / "a.reaper"


@pytest.fixture
def new(tmp_path):
    store = Store.open_for(tmp_path / "new", OWN_HEADER)
    yield store
    store.close()


def test_stages_are_taken_whatever_the_settings_of_the_rest(source, new):
    complete = {TEACHER.digest: frozenset(), OTHER.digest: frozenset()}
    assert held_stages(source) == complete
    take_stages(new, [TEACHER.digest], source)
    assert (new.stages(), new.run_names(), new.header) == ([TEACHER.digest], [], OWN_HEADER)
    assert new.stage(TEACHER.digest).tensors("agent")["w"].tolist() == [0, 1]
    assert new.stage(TEACHER.digest).provenance().seconds == 2.0  # of the run that made it
    assert held_stages(source) == complete  # it is only read
    assert not list(new.folder.rglob("*.part"))


@pytest.mark.parametrize("as_folder", [False, True])
def test_what_a_stage_lacks_is_known(tmp_path, as_folder):
    some = tmp_path / "some.reaper"
    export_stages(make(tmp_path / "out"), some, {TEACHER.digest: ["rows.json"], EVALUATION.digest: ["rows.json"]})
    if as_folder:
        import_pack(some, tmp_path / "some", lambda found: None)
    held = held_stages(tmp_path / "some" if as_folder else some)
    assert held == dict.fromkeys([TEACHER.digest, EVALUATION.digest], frozenset({"agent.safetensors"}))


def test_another_process_may_be_first(source, new, tmp_path, monkeypatch):
    """Both share the store and want the same stage."""

    def move_late(start, target):
        shutil.copytree(make(tmp_path / "theirs", stages=(TEACHER,)).path_of(TEACHER.digest), target)
        move(start, target)

    monkeypatch.setattr("reaper.storage.reuse.move", move_late)
    take_stages(new, [TEACHER.digest], source)
    assert new.stages() == [TEACHER.digest]
    assert not list(new.folder.rglob("*.part"))


def test_a_damaged_stage_is_not_taken(tmp_path, new):
    spoil(make(tmp_path / "out"), MEMORY)
    with pytest.raises(DamagedArtefact):
        take_stages(new, [MEMORY.digest], tmp_path / "out")
    assert new.stages() == []
    take_stages(new, [TEACHER.digest, EVALUATION.digest], tmp_path / "out")  # others are
    assert len(new.stages()) == 2


def test_what_is_no_run_is_refused(tmp_path):
    make(tmp_path / "out")
    export_weights(tmp_path / "out", tmp_path / "m.reaper", RunChoice())
    with pytest.raises(UserError, match="holds one long-term memory; --reuse needs a run, --continue-from takes"):
        held_stages(tmp_path / "m.reaper")
    with pytest.raises(UserError, match="not a run of reaper"):
        held_stages(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        held_stages(tmp_path / "missing.reaper")
