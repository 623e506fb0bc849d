"""Pack files: what is written, in which order it reaches the disk, and what is refused when one is opened."""

import hashlib
import io
import os
import stat
import zipfile

import pytest

from reaper.errors import DamagedArtefact, UserError
from reaper.storage import pack_file
from reaper.storage.files import checksummed
from reaper.storage.pack_file import CHUNK, INDEX, PACK_FORMAT, Pack, new_pack

CONTENTS = {"memory.json": b"{}", "agent.safetensors": bytes(range(256)) * 5000, "retained.safetensors": b""}


def write(path, contents=CONTENTS, **options):
    with new_pack(path, "weights", **options) as writer:
        return [writer.add(name, io.BytesIO(data)) for name, data in contents.items()]


def forged(path, index=None, files=CONTENTS, **changes):
    """A zip file with an index that fits its checksum but not its contents."""
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(name, data)
        given = {"format": PACK_FORMAT, "kind": "weights", "files": listed, **changes}
        zipped.writestr(INDEX, checksummed(given) if index is None else index)
    return path


def test_a_pack_is_unpacked_as_it_was(tmp_path):
    assert len(CONTENTS["agent.safetensors"]) > CHUNK  # more than one chunk
    entries = write(tmp_path / "new" / "a.reaper")
    assert [entry.bytes for entry in entries] == [2, 1_280_000, 0]
    assert entries[0].sha256 == hashlib.sha256(b"{}").hexdigest()
    with Pack(tmp_path / "new" / "a.reaper") as pack:
        assert (pack.kind, pack.format, pack.bytes) == ("weights", 2, 1_280_002)
        with pack.unpacked(tmp_path / "out"):
            assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == CONTENTS
    assert [path.name for path in tmp_path.iterdir()] == ["new"]  # removed in the end
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.reaper"]


def test_equal_contents_make_equal_packs_of_plain_files(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a") as zipped:
        infos = zipped.infolist()
    assert [info.filename for info in infos] == [*CONTENTS, INDEX]
    for info in infos:
        assert info.date_time == (1980, 1, 1, 0, 0, 0)
        assert info.compress_type == zipfile.ZIP_DEFLATED
        assert info.external_attr >> 16 == stat.S_IFREG | 0o644
    assert infos[1].compress_size < 100_000


def test_a_pack_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls, fsync = [], os.fsync

    def record(handle):
        calls.append(("file", (tmp_path / "a").exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(pack_file, "sync", lambda path: calls.append((path.name, (tmp_path / "a").exists())))
    write(tmp_path / "a")
    assert calls == [("file", False), (tmp_path.name, True)]
    calls.clear()
    with Pack(tmp_path / "a") as pack, pack.unpacked(tmp_path / "out"):
        assert calls == [("file", True)] * 3 + [("out", True)]


def test_files_are_overwritten_on_request_and_folders_never(tmp_path):
    write(tmp_path / "a")
    with pytest.raises(UserError, match="already exists; choose another name or --overwrite"):
        write(tmp_path / "a")
    write(tmp_path / "a", {"memory.json": b"new"}, overwrite=True)
    with Pack(tmp_path / "a") as pack:
        assert pack.bytes == 3
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"already exists; choose another name$"):
        write(tmp_path / "folder", overwrite=True)


def test_a_name_that_no_run_has_is_not_packed(tmp_path):
    with pytest.raises(UserError, match="cannot be packed"):
        write(tmp_path / "a", {"other.json": b"{}"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"index": b"{}"}, "its index does not match its checksum"),
        ({"kind": "other"}, "its index is malformed"),
        ({"files": {}, "kind": "run", "format": 3}, r"another version of reaper \(format 3; this one reads 1 and 2\)"),
    ],
)
def test_an_index_that_says_something_else_is_refused(tmp_path, how, reason):
    with pytest.raises(UserError, match=reason):
        Pack(forged(tmp_path / "a", **how))


def listing(**changes):
    entry = {"bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest(), **changes}
    return checksummed({"format": PACK_FORMAT, "kind": "weights", "files": {"memory.json": entry}})


@pytest.mark.parametrize(
    ("index", "files", "reason"),
    [
        (listing(), {}, "is in the index or in the zip file, but not in both"),
        (listing(), {"memory.json": b"{}", "agent.safetensors": b""}, "but not in both"),
        (listing(), {"memory.json": b"{ }"}, "does not have the size in the index"),
        (listing(bytes="2"), {"memory.json": b"{}"}, "its index is malformed"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path, index, files, reason):
    with pytest.raises(UserError, match=reason):
        Pack(forged(tmp_path / "a", index, files))


def test_contents_that_do_not_fit_are_refused_and_removed(tmp_path):
    path = forged(tmp_path / "a", listing(sha256="0" * 64), {"memory.json": b"{}"})
    refused = pytest.raises(UserError, match="does not match its checksum; nothing was unpacked")
    with Pack(path) as pack, refused, pack.unpacked(tmp_path / "out"):
        raise AssertionError
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_damage_found_in_an_unpacked_folder_is_the_packs(tmp_path):
    write(tmp_path / "a")

    def use(damaged):
        with Pack(tmp_path / "a") as pack, pack.unpacked(tmp_path / "out"):
            raise DamagedArtefact(damaged, "is broken")

    with pytest.raises(UserError, match=r"valid pack of reaper: memory.json is broken; nothing"):
        use(tmp_path / "out" / "memory.json")
    with pytest.raises(DamagedArtefact, match="elsewhere is broken"):
        use(tmp_path / "elsewhere")


def test_a_pack_needs_no_more_space_than_there_is(tmp_path, monkeypatch):
    write(tmp_path / "a")
    for free, enough in ((1_280_002, True), (1_280_001, False)):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(pack_file.shutil, "disk_usage", lambda path, usage=usage: usage)
        with Pack(tmp_path / "a") as pack:
            if enough:
                with pack.unpacked(tmp_path / "out"):
                    pass
            else:
                with pytest.raises(UserError, match="needs 1,280,002 bytes and only 1,280,001 are free"):
                    pack._unpack(tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04"])
def test_other_files_are_no_packs(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(UserError, match="it is not a zip file, or it is truncated"):
        Pack(tmp_path / "a")
    with pytest.raises(UserError, match="does not exist, or is not a file"):
        Pack(tmp_path / "absent")


def test_long_names_are_shortened(tmp_path):
    for name, shown in (("x" * 60, "x" * 60), ("x" * 61, "x" * 57 + "...")):
        path = forged(tmp_path / "a", files={name: b""})
        with pytest.raises(UserError, match=f"'{shown}' is not a name of a run's files".replace(".", r"\.")):
            Pack(path)


def test_unusual_entries_are_refused(tmp_path):
    link = zipfile.ZipInfo("memory.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    packed = zipfile.ZipInfo("memory.json")
    packed.compress_type = zipfile.ZIP_BZIP2
    for info, reason in ((link, "is not a plain file"), (packed, "compressed in a way that packs never use")):
        with zipfile.ZipFile(tmp_path / "a", "w") as zipped:
            zipped.writestr(info, b"{}")
        with pytest.raises(UserError, match=reason):
            Pack(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a", "w") as zipped:
        zipped.writestr("memory.json", b"{}")
    with pytest.raises(UserError, match="it has no index"):
        Pack(tmp_path / "a")


@pytest.mark.parametrize(("flag", "refused"), [(1, True), (2, False)])
def test_an_entry_that_claims_to_be_encrypted_is_refused_unread(tmp_path, flag, refused):
    """Bit 0 of the flags in the central directory; bit 1 is only how hard the compressor tried."""
    write(tmp_path / "a")
    data = bytearray((tmp_path / "a").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= flag
    (tmp_path / "a").write_bytes(data)
    if refused:
        with pytest.raises(UserError, match=r"'memory\.json' is compressed in a way that packs never use"):
            Pack(tmp_path / "a")
    else:
        Pack(tmp_path / "a").close()
