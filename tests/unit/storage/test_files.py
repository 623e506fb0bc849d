"""Files and locks: complete or absent, checked, and held by one process at a time."""

import errno
import hashlib
import json
import os

import pytest
import torch
from safetensors.torch import save_file

from reaper.errors import DamagedArtefact, ReaperError
from reaper.storage import files
from reaper.storage.files import (
    atomic_dir,
    atomic_write,
    checksummed,
    parse_checksummed,
    read_checksummed,
    read_tensors,
    sha256,
    write_checksummed,
)
from reaper.storage.locks import Lock
from reaper.storage.parsing import digest, integer, many, mapping, number, require, settings_in, text


def test_a_checksummed_object_is_read_back_and_nothing_else(tmp_path):
    value = {"b": [1, 2.5, None], "a": {"é": True}}
    data = checksummed(value)
    assert parse_checksummed(data) == value
    assert checksummed(dict(reversed(value.items()))) == data  # one spelling
    assert data.endswith(b"}\n")
    for wrong in (data[:-1], data + b" ", data.replace(b"2.5", b"2.6"), b"", b"[]", b"{}", b'"x"', b"[" * 100_000):
        assert parse_checksummed(wrong) is None
    assert parse_checksummed(checksummed(value, "sum"), "sum") == value
    assert parse_checksummed(data, "sum") is None
    write_checksummed(tmp_path / "new" / "file.json", value)
    assert read_checksummed(tmp_path / "new" / "file.json") == value


def test_damage_and_absence_are_named(tmp_path):
    path = tmp_path / "file.json"
    with pytest.raises(DamagedArtefact, match="cannot be read"):
        read_checksummed(path)
    path.write_text(json.dumps({"a": 1}))
    with pytest.raises(DamagedArtefact, match="does not match its checksum"):
        read_checksummed(path)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 21) + 3])
def test_digests_are_of_the_whole_file(tmp_path, size):
    data = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "file").write_bytes(data[:size])
    assert sha256(tmp_path / "file") == hashlib.sha256(data[:size]).hexdigest()


def test_what_was_written_is_synced_first_and_then_renamed(tmp_path, monkeypatch):
    """A file is on the disk before it has its name, and then its name is on the disk, too."""
    calls = []
    monkeypatch.setattr(files, "sync", lambda path: calls.append((path.name, (tmp_path / "file").exists())))
    atomic_write(tmp_path / "file", b"data")
    assert calls == [(f".file.{os.getpid()}.part", False), (tmp_path.name, True)]
    assert (tmp_path / "file").read_bytes() == b"data"


def test_a_folder_is_synced_file_by_file_and_then_renamed(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(files, "sync", lambda path: calls.append((path.name, (tmp_path / "folder").exists())))
    with atomic_dir(tmp_path / "folder") as building:
        (building / "one").write_text("1")
        assert not (tmp_path / "folder").exists()
    assert calls == [("one", False), (f".folder.{os.getpid()}.part", False), (tmp_path.name, True)]
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "one"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    atomic_write(tmp_path / "file", b"old")

    def full(path):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(ReaperError, match="no space"):
        atomic_write(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    def fail():
        with atomic_dir(tmp_path / "folder") as building:
            (building / "one").write_text("1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_finished_first_stays(tmp_path):
    with atomic_dir(tmp_path / "folder") as building:
        (building / "one").write_text("ours")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "one").write_text("theirs")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "one").read_text() == "theirs"


def test_an_output_folder_that_was_removed_stays_removed(tmp_path):
    with pytest.raises(ReaperError), atomic_dir(tmp_path / "gone" / "stages" / "folder"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_safetensors_are_tensors(tmp_path):
    path = tmp_path / "file"
    save_file({"a": torch.arange(3)}, path)
    assert read_tensors(path)["a"].tolist() == [0, 1, 2]
    path.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(DamagedArtefact, match="its header would have"):
        read_tensors(path)
    path.write_bytes((2).to_bytes(8, "little") + b"xx")
    with pytest.raises(DamagedArtefact, match="is not a safetensors file"):
        read_tensors(path)
    with pytest.raises(DamagedArtefact, match="cannot be read"):
        read_tensors(tmp_path / "absent")


# -- locks


def test_a_lock_is_held_once_or_shared(tmp_path):
    path = tmp_path / "new" / "lock"
    first, second = Lock(path), Lock(path)
    assert first.take() is True
    assert second.take() is False
    assert second.take(shared=True) is False
    first.release()
    first.release()  # nothing to do
    assert second.take(shared=True) is True
    assert first.take(shared=True) is True
    assert Lock(path).take() is False
    first.release()
    second.release()
    assert path.exists()
    assert first.take() is True
    first.release(remove=True)
    assert not path.exists()


def test_a_lock_whose_file_its_last_holder_removed_is_taken_on_a_new_file(tmp_path, monkeypatch):
    path, checks = tmp_path / "lock", []
    lock, is_still = Lock(path), Lock._is_still

    def removed_at_first(self, file):
        if not checks:
            path.unlink()
        checks.append(is_still(self, file))
        return checks[-1]

    monkeypatch.setattr(Lock, "_is_still", removed_at_first)
    assert lock.take() is True
    assert checks == [False, True]
    assert Lock(path).take() is False


# -- values


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (text, ["", "a"], [1, None, b"a"]),
        (integer, [0, -3], [True, 1.0, "1", None]),
        (number, [0, 1.5], [True, "1", None]),
        (mapping, [{}, {"a": 1}], [[], "a", None]),
        (digest, ["0123456789abcdef0123"], ["0" * 19, "0" * 21, "G" * 20, 5, "0" * 20 + "\n"]),
        (settings_in, [{}, {"a": {"b": 1}}], [{"a": 1}, []]),
        (lambda values: many(integer, values), [[], [1, 2], (3,)], [[1, "2"], "12", {1: 2}]),
        (lambda value: require(value, "why"), [True], [False]),
    ],
)
def test_values_are_checked(check, good, bad):
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(ValueError, match=r"not|why"):
            check(value)


def test_values_that_pass_are_returned():
    assert (text("a"), integer(3), number(2), mapping({"a": 1})) == ("a", 3, 2.0, {"a": 1})
    assert digest("0123456789abcdef0123") == "0123456789abcdef0123"
    assert many(integer, [1, 2]) == (1, 2)
    assert settings_in({"a": {"b": 1}}) == {"a": {"b": 1}}
