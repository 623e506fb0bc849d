"""Folders sent between machines arrive unchanged, or not at all."""

import shutil

import numpy as np
import pytest

from reaper.errors import DamagedArtefact
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.store import Store
from reaper.storage.transfer import pack, pack_checkpoint, unpack_checkpoint, unpack_stage


def opened(folder):
    store = Store(folder)
    store.make_folders()
    return store


@pytest.fixture
def sender(tiny_run, tmp_path):
    """A store to send from: a copy, with the digest of a stage in it."""
    shutil.copytree(tiny_run, tmp_path / "from")
    store = opened(tmp_path / "from")
    return store, store.stages()[0]


def test_a_stage_arrives_unchanged(sender, tmp_path):
    store, digest = sender
    other = opened(tmp_path / "to")
    unpack_stage(pack(store.path_of(digest)), other, digest)
    sent, found = ({p.name: p.read_bytes() for p in s.path_of(digest).iterdir()} for s in (store, other))
    assert sent == found


@pytest.mark.parametrize("name", ["../escaped.json", "/tmp/escaped.json", ".hidden", "a/b.json", ""])
def test_untrusted_file_names_are_refused(sender, tmp_path, name):
    store, digest = sender
    files = {**pack(store.path_of(digest)), name: np.zeros(1, np.uint8)}
    with pytest.raises(DamagedArtefact, match="refused"):
        unpack_stage(files, opened(tmp_path / "to"), digest)
    assert not [path for path in (tmp_path / "to").rglob("*") if path.is_file()]


def test_damaged_or_exchanged_files_leave_nothing(sender, tmp_path):
    store, digest = sender
    good, other = pack(store.path_of(digest)), opened(tmp_path / "to")
    name = next(name for name in good if name not in ("manifest.json", "provenance.json"))
    flipped = good[name].copy()
    flipped[len(flipped) // 2] ^= 1
    extra = {**good, "extra.json": np.zeros(1, np.uint8)}
    wrong = pack(store.path_of(store.stages()[1]))
    for files in ({**good, name: flipped}, extra, wrong):
        with pytest.raises(DamagedArtefact):
            unpack_stage(files, other, digest)
    assert list((tmp_path / "to" / "stages").iterdir()) == []


def test_the_newest_intact_checkpoint_is_sent(tmp_path):
    store, other, digest = opened(tmp_path / "from"), opened(tmp_path / "to"), "0" * 20
    shelf = CheckpointDir(store.unfinished(digest), digest)
    for count in range(3):
        shelf.write({}, {"count": count})
    (shelf.folder / "3" / "others.json").write_text("{}")
    unpack_checkpoint(pack_checkpoint(store, digest), other, digest)
    assert CheckpointDir(other.unfinished(digest), digest).newest()[0] == {"count": 1}
