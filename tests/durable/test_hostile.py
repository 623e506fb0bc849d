"""Files made to do harm: refused in one line, with no code run and nothing written elsewhere."""

import json
import os
import pickle
import random
import shutil
import stat
import struct
import zipfile

import pytest
import torch
from damaging import command, contents, refused
from safetensors.torch import load_file, save_file

import reaper
from reaper.errors import ReaperError, UserError
from reaper.learning.found_memory import check_memory
from reaper.storage.files import checksummed, digest_of, read_checksummed, sha256
from reaper.storage.pack import export_run, import_pack
from reaper.storage.pack_file import INDEX, MAX_INDEX_BYTES
from reaper.storage.store import Store


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def update_manifest(path):
    """Updates the manifest next to a changed file, as whoever forges it would."""
    about = read_checksummed(path.parent / "manifest.json")
    about["files"][path.name] = {"sha256": sha256(path), "bytes": path.stat().st_size}
    (path.parent / "manifest.json").write_bytes(checksummed(about))


def forge_spec(folder, **changes):
    """Gives a stage another spec, and the digest that belongs to it."""
    about = read_checksummed(folder / "manifest.json")
    about["spec"] |= changes
    about["digest"] = digest_of(about["spec"])
    (folder / "manifest.json").write_bytes(checksummed(about))
    made = read_checksummed(folder / "provenance.json")
    (folder / "provenance.json").write_bytes(checksummed({**made, "digest": about["digest"]}))


@pytest.fixture
def memory(two_seeds, tmp_path):
    """A copy of one long-term memory's stage."""
    digest = Store.open(two_seeds).runs()[0].memories[0]
    return shutil.copytree(two_seeds / "stages" / digest, tmp_path / "memory")


def test_the_payload_would_work(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "marker")))
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("how", ["pickle", "torch.save"])
@pytest.mark.parametrize("with_checksum", [False, True])
@pytest.mark.parametrize("name", ["agent.safetensors", "retained.safetensors", "memory.json", "manifest.json"])
def test_code_in_a_file_is_never_run(memory, tmp_path, capfd, how, with_checksum, name):
    if how == "pickle":
        (memory / name).write_bytes(pickle.dumps(Payload(tmp_path / "marker")))
    else:
        torch.save(Payload(tmp_path / "marker"), memory / name)
    if with_checksum and name != "manifest.json":
        update_manifest(memory / name)
    refused(capfd, 2, "play", memory, "--task", "catch")
    assert not (tmp_path / "marker").exists()


def test_code_in_a_run_is_never_run_by_a_report(two_seeds, tmp_path, capfd):
    out = shutil.copytree(two_seeds, tmp_path / "out")
    for path in out.glob("stages/*/states.safetensors"):
        path.write_bytes(pickle.dumps(Payload(tmp_path / "marker")))
        update_manifest(path)
    assert "is not a safetensors file" in refused(capfd, 2, "report", out)
    assert not (tmp_path / "marker").exists()


HEADERS = {
    "2**60 bytes": struct.pack("<Q", 2**60) + b"{}",
    "deep": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "data that is not there": b'{"w":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}',
    "overflowing": b'{"w":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807],"data_offsets":[0,4]}}',
    "overlapping": b'{"v":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
    b'"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "another type": b'{"w":{"dtype":"OBJECT","shape":[1],"data_offsets":[0,4]}}',
    "empty": b"",
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_forged_header_is_refused(memory, capfd, header):
    data = HEADERS[header]
    if data.startswith(b"{"):
        data = struct.pack("<Q", len(data)) + data + b"\0" * 4
    (memory / "agent.safetensors").write_bytes(data)
    update_manifest(memory / "agent.safetensors")
    assert "is not a safetensors file" in refused(capfd, 2, "play", memory, "--task", "catch")


WRONG = {
    "shape": lambda w: w | {"values.bias": torch.zeros(99)},
    "dtype": lambda w: {name: tensor.half() for name, tensor in w.items()},
    "integers": lambda w: w | {"values.bias": w["values.bias"].to(torch.int64)},
    "missing": lambda w: {name: tensor for name, tensor in w.items() if name != "values.bias"},
    "more": lambda w: w | {"values.other": torch.zeros(1)},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("part", ["agent", "retained"])
def test_weights_of_another_network_are_refused(memory, capfd, wrong, part):
    path = memory / f"{part}.safetensors"
    weights = load_file(path)
    first = "values.bias" if part == "agent" else "generator.layers.0.bias"
    changed = WRONG[wrong]({name.replace(first, "values.bias"): tensor for name, tensor in weights.items()})
    save_file({name.replace("values.", first.replace("bias", "")): t for name, t in changed.items()}, path)
    update_manifest(path)
    assert "of another network" in refused(capfd, 2, "play", memory, "--task", "catch")


@pytest.mark.parametrize(
    "changes",
    [
        {"observation": {"frame_size": 2**40, "frame_stack": 4}},
        {"observation": {"frame_size": 84, "frame_stack": 10**30}},
        {"observation": {"frame_size": "84", "frame_stack": 4}},
        {"observation": {"frame_size": 13, "frame_stack": 4}},
        {"observation": {"frame_size": -84, "frame_stack": 4}},
        {"observation": []},
        {"network": {"width": 10**12, "initialisation": "he"}},
        {"network": {"width": 0, "initialisation": "he"}},
        {"evaluation": {"episodes": 1, "epsilon": float("nan"), "interval": 1, "min_interval": 1}},
        None,
    ],
    ids=str,
)
def test_settings_that_make_no_network_are_refused(memory, capfd, changes):
    settings = read_checksummed(memory / "manifest.json")["spec"]["settings"]
    forge_spec(memory, settings=None if changes is None else {**settings, **changes})
    refused(capfd, 2, "play", memory, "--task", "catch")


@pytest.mark.parametrize("actions", [10**18, 0, "three", None, 2.5])
def test_action_sets_that_make_no_network_are_refused(memory, capfd, actions):
    forge_spec(memory, num_actions=actions)
    refused(capfd, 2, "play", memory, "--task", "catch")


@pytest.mark.parametrize("text", ["[]", "null", '{"tasks": 3}', '{"tasks": []}', '{"tasks": [1]}', "[" * 100_000])
def test_a_memory_without_tasks_is_refused(memory, capfd, text):
    (memory / "memory.json").write_text(text)
    update_manifest(memory / "memory.json")
    refused(capfd, 2, "play", memory, "--task", "catch")


def test_a_task_in_a_file_imports_no_module(memory, tmp_path, capfd, monkeypatch):
    """Gymnasium imports the module before a colon, so a file must not name one."""
    (tmp_path / "catch-v0.py").write_text(f"import os; os.mkdir({str(tmp_path / 'marker')!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    (memory / "memory.json").write_text('{"tasks": ["catch-v0:x"]}')
    update_manifest(memory / "memory.json")
    refused(capfd, 2, "play", memory, "--task", "catch")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"memories": ["../../../elsewhere"]},
        {"random": "../.."},
        {"condition": {"name": "/../../../evil"}},
        {"condition": None},
        {"tasks": []},
        {"seed": "0"},
        {"settings": {}},
        {"titles": [["Catch"]]},
        {"evaluations": []},
        {"singles": ["0" * 20, "0" * 20]},
    ],
    ids=str,
)
def test_a_forged_record_is_refused(two_seeds, tmp_path, capfd, changes):
    out = shutil.copytree(two_seeds, tmp_path / "out")
    path = next(out.glob("runs/*seed-0.json"))
    path.write_bytes(checksummed(read_checksummed(path) | changes))
    if "evaluations" in changes:  # looks like an unfinished run
        assert command(capfd, "report", out)[0] == 0
    else:
        refused(capfd, 2, "report", out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


@pytest.mark.parametrize("rows", ["3", "[3]", "[{}]", '[{"task":"x","scores":[1]}]', '[{"task":"catch","scores":{}}]'])
def test_forged_rows_are_refused(two_seeds, tmp_path, capfd, rows):
    out = shutil.copytree(two_seeds, tmp_path / "out")
    path = out / "stages" / Store.open(out).runs()[0].evaluations[0] / "rows.json"
    path.write_text(rows)
    update_manifest(path)
    assert "do not fit together" in refused(capfd, 2, "report", out)


def test_a_manifest_that_names_files_elsewhere_is_refused(memory, tmp_path, capfd):
    about = read_checksummed(memory / "manifest.json")
    (tmp_path / "secret").write_text("secret")
    for files in ({"../secret": {"bytes": 6, "sha256": sha256(tmp_path / "secret")}}, [], {"a.json": 3}):
        (memory / "manifest.json").write_bytes(checksummed(about | {"files": files}))
        assert "is not a list of files that any version writes" in refused(capfd, 2, "play", memory, "--task", "catch")


# -- packs


@pytest.fixture(scope="module")
def pack(two_seeds, tmp_path_factory):
    file = tmp_path_factory.mktemp("pack") / "run.reaper"
    export_run(two_seeds, file)
    return file


def rewritten(pack, target, change):
    """A copy of a pack after `change(entries, index)`: names with their data, and the index without its checksum."""
    with zipfile.ZipFile(pack) as old:
        entries = [[info.filename, old.read(info)] for info in old.infolist() if info.filename != INDEX]
        index = json.loads(old.read(INDEX))
    del index["checksum"]
    data = change(entries, index)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in entries:
            new.writestr(name, content)
        if data is not None:
            new.writestr(INDEX, data)
    return target


def listed(index, name, data):
    from hashlib import sha256

    index["files"][name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}


def with_file(name, is_listed=True):
    def change(entries, index):
        entries.append([name, b"evil"])
        if is_listed:
            listed(index, name, b"evil")
        return checksummed(index)

    return change


def with_link(entries, index):
    info = zipfile.ZipInfo("stages/" + "0" * 20 + "/agent.safetensors")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    entries.append([info, b"/etc/passwd"])
    listed(index, info.filename, b"/etc/passwd")
    return checksummed(index)


def with_bomb(entries, index):
    entries[0][1] = entries[0][1] + b"\0" * (64 << 20)
    return checksummed(index)


def with_another_checksum(entries, index):
    index["files"][entries[0][0]]["sha256"] = "0" * 64
    return checksummed(index)


def with_stage_renamed(entries, index):
    digest = next(name for name in index["files"] if name.startswith("stages/")).split("/")[1]
    for entry in entries:
        new = entry[0].replace(digest, "0" * 20)
        index["files"][new] = index["files"].pop(entry[0])
        entry[0] = new
    return checksummed(index)


def with_damaged_stage(entries, index):
    """Consistent as a pack; only the stage's own manifest reveals it."""
    entry = next(entry for entry in entries if entry[0].endswith("agent.safetensors"))
    entry[1] = entry[1][:-1] + bytes([entry[1][-1] ^ 1])
    listed(index, *entry)
    return checksummed(index)


def with_unlisted_file_in_stage(entries, index):
    digest = next(name for name in index["files"] if name.startswith("stages/")).split("/")[1]
    return with_file(f"stages/{digest}/extra.json")(entries, index)


HOSTILE = {
    "up": with_file("../evil"),
    "up inside": with_file("stages/../../evil"),
    "absolute": with_file("/tmp/evil"),
    "backslash": with_file("runs/..\\evil.json"),
    "hidden": with_file("runs/.evil.json"),
    "other name": with_file("evil.py"),
    "a folder": with_file("stages/"),
    "unlisted": with_file("stages/" + "0" * 20 + "/agent.safetensors", is_listed=False),
    "link": with_link,
    "bomb": with_bomb,
    "checksum": with_another_checksum,
    "renamed stage": with_stage_renamed,
    "damaged stage": with_damaged_stage,
    "extra file": with_unlisted_file_in_stage,
    "no checksum": lambda entries, index: json.dumps(index),
    "wrong checksum": lambda entries, index: checksummed(index).replace(b"run", b"ruin"),
    "no index": lambda entries, index: None,
    "deep index": lambda entries, index: b"[" * 1_000_000,
    "large index": lambda entries, index: b" " * (MAX_INDEX_BYTES + 1),
    "other format": lambda entries, index: checksummed(index | {"format": 99}),
    "other kind": lambda entries, index: checksummed(index | {"kind": "programs"}),
    "files not a table": lambda entries, index: checksummed(index | {"files": [1]}),
    "negative size": lambda entries, index: checksummed(
        index | {"files": {"reaper.json": {"bytes": -1, "sha256": ""}}}
    ),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_pack_leaves_nothing_behind(pack, tmp_path, capfd, how):
    (tmp_path / "in").mkdir()
    file = rewritten(pack, tmp_path / "in" / "evil.reaper", HOSTILE[how])
    before = contents(tmp_path)
    refused(capfd, 2, "import", file, tmp_path / "in" / "out")
    refused(capfd, 2, "play", file, "--task", "catch")
    assert contents(tmp_path) == before
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["evil.reaper"]
    assert not os.path.exists("/tmp/evil")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(pack, tmp_path, capfd):
    def twice(entries, index):
        entries.append(list(entries[0]))
        return checksummed(index)

    assert "twice" in refused(capfd, 2, "import", rewritten(pack, tmp_path / "evil", twice), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_false_size_in_the_zip_is_refused(pack, tmp_path, capfd):
    """Index and directory of the zip list 8 bytes for reaper.json, but it has a megabyte."""

    def change(entries, index):
        entries[0][1] = b"\0" * (1 << 20)
        index["files"]["reaper.json"]["bytes"] = 8
        return checksummed(index)

    file = rewritten(pack, tmp_path / "evil", change)
    forged = bytearray(file.read_bytes())
    struct.pack_into("<I", forged, forged.index(b"PK\x03\x04") + 22, 8)
    struct.pack_into("<I", forged, forged.index(b"PK\x01\x02") + 24, 8)
    file.write_bytes(forged)
    assert "'reaper.json' cannot be unpacked" in refused(capfd, 2, "import", file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pack_larger_than_the_free_space_is_not_unpacked(pack, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 5))
    assert "5 are free" in refused(capfd, 2, "import", pack, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", [b"", b"PK\x05\x06" + b"\0" * 18, b"not a zip", "half", "a run", "nothing"])
def test_other_files_are_refused(pack, tmp_path, capfd, what):
    file = tmp_path / "file"
    if what != "nothing":
        data = pack.read_bytes()
        file.write_bytes({"half": data[: len(data) // 2], "a run": data}.get(what, what))
    if what != "a run":
        refused(capfd, 2, "import", file, tmp_path / "out")
    refused(capfd, 2, "play", file, "--task", "catch")
    refused(capfd, 2, "report", file)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.long)])
def test_a_damaged_pack_is_refused_or_has_the_same_contents(pack, two_seeds, tmp_path, count):
    """One changed byte anywhere: only our own errors, and never other contents."""
    whole, chance, refusals = pack.read_bytes(), random.Random(1), 0
    directory = whole.rindex(b"reaper.json") - 200  # half of the changes hit the names
    for _ in range(count):
        data = bytearray(whole)
        place = chance.randrange(len(data)) if chance.random() < 0.5 else chance.randrange(directory, len(data))
        data[place] = chance.randrange(256)
        (tmp_path / "damaged").write_bytes(data)
        try:
            import_pack(tmp_path / "damaged", tmp_path / "out", check_memory)
        except ReaperError:
            refusals += 1
            assert not (tmp_path / "out").exists()
        else:
            assert contents(tmp_path / "out") == {n: d for n, d in contents(two_seeds).items() if "report" not in n}
            shutil.rmtree(tmp_path / "out")
    assert refusals > count // 3


def test_a_memory_with_weights_of_another_network_is_not_imported(two_seeds, tmp_path, capfd):
    words = ["--what", "weights", "--condition", "DGDMN"]
    assert command(capfd, "export", two_seeds, tmp_path / "memory.reaper", *words)[0] == 0
    folder = tmp_path / "memory"
    import_pack(tmp_path / "memory.reaper", folder, check_memory)
    save_file({"w": torch.zeros(3)}, folder / "agent.safetensors")
    update_manifest(folder / "agent.safetensors")

    def change(entries, index):
        for entry in entries:
            entry[1] = (folder / entry[0]).read_bytes()
            listed(index, *entry)
        return checksummed(index)

    evil = rewritten(tmp_path / "memory.reaper", tmp_path / "evil.reaper", change)
    assert "of another network" in refused(capfd, 2, "import", evil, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="of another network"):
        reaper.load(evil)
