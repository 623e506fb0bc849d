"""An output folder as a whole: who may write to it, what is swept, and what its files must be."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from small_store import HEADER, MEMORY, RUN, TEACHER, make

from reaper.errors import DamagedArtefact, StorageFailed, UserError
from reaper.storage.files import storing
from reaper.storage.locks import Lock
from reaper.storage.manifests import FileEntry
from reaper.storage.store import Store, _may_be_store


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
    lock = Lock(tmp_path / "lock")
    assert lock.take()
    os.replace(tmp_path / "lock", tmp_path / "moved")
    assert Lock(tmp_path / "lock").take(), "a file of the same name is another lock"
