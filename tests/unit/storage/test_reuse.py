"""Taking finished stages from packs and other output folders."""

import shutil
from dataclasses import replace

import pytest
import torch
from small_store import EVALUATION, HEADER, MEMORY, TEACHER, make, spoil

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.find import RunChoice
from reaper.storage.manifests import Provenance
from reaper.storage.pack import export_run, export_weights, move
from reaper.storage.reuse import reuse_stages, stages_in
from reaper.storage.store import Store

OTHER = replace(TEACHER, spec={**TEACHER.spec, "seed": 9})  # of no interest to the new study
OWN_HEADER = replace(HEADER, settings={"long_term": {"alpha": 0.2}})
NEEDED = [TEACHER.digest, MEMORY.digest]


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


def test_stages_that_are_needed_are_taken_whatever_the_settings_of_the_rest(source, new):
    assert stages_in(source) == {TEACHER.digest, OTHER.digest}
    assert reuse_stages(new, NEEDED, source) == 1
    assert (new.stages(), new.run_names(), new.header) == ([TEACHER.digest], [], OWN_HEADER)
    assert new.stage(TEACHER.digest).tensors("agent")["w"].tolist() == [0, 1]
    assert new.stage(TEACHER.digest).provenance().seconds == 2.0  # also of the run that made it
    assert stages_in(source) == {TEACHER.digest, OTHER.digest}  # it is only read
    assert not list(new.folder.rglob("*.part"))
    assert reuse_stages(new, NEEDED, source) == 0  # all that there is has been taken


def test_a_stage_that_is_there_stays(source, new):
    new.write_stage(TEACHER, {"agent": {"w": torch.ones(3)}}, {"rows": []}, Provenance())
    assert reuse_stages(new, NEEDED, source) == 0
    assert new.stage(TEACHER.digest).tensors("agent")["w"].tolist() == [1, 1, 1]


def test_another_process_may_be_first(source, new, tmp_path, monkeypatch):
    """Both share the store and want the same stage."""

    def move_late(start, target):
        shutil.copytree(make(tmp_path / "theirs", stages=(TEACHER,)).path_of(TEACHER.digest), target)
        move(start, target)

    monkeypatch.setattr("reaper.storage.reuse.move", move_late)
    assert reuse_stages(new, NEEDED, source) == 1
    assert new.stages() == [TEACHER.digest]
    assert not list(new.folder.rglob("*.part"))


def test_a_damaged_stage_is_not_taken(tmp_path, new):
    spoil(make(tmp_path / "out"), MEMORY)
    with pytest.raises(DamagedArtefact):
        reuse_stages(new, [MEMORY.digest], tmp_path / "out")
    assert new.stages() == []
    assert reuse_stages(new, [TEACHER.digest, EVALUATION.digest], tmp_path / "out") == 2  # others are


def test_what_is_no_run_is_refused(tmp_path, new):
    make(tmp_path / "out")
    export_weights(tmp_path / "out", tmp_path / "m.reaper", RunChoice())
    for use in (stages_in, lambda source: reuse_stages(new, NEEDED, source)):
        with pytest.raises(UserError, match="holds one long-term memory; --reuse needs a run, --continue-from takes"):
            use(tmp_path / "m.reaper")
        with pytest.raises(UserError, match="not a run of reaper"):
            use(tmp_path)
        with pytest.raises(UserError, match="does not exist"):
            use(tmp_path / "missing.reaper")
    assert new.stages() == []
