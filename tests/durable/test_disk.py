"""A disk that is full, read-only or gone: one line, exit code 74; the same command finishes once there is space."""

import errno
import os
import re
import resource
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from conftest import plan_tiny, run_args, run_plan, run_tiny
from damaging import command, contents, refused, results

from reaper.errors import StorageFailed

WORDS = {"tasks": "catch", "every": "60"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    run_tiny(folder, ["RePR"], "catch", checkpoint_every="60")
    return folder


def same_results(out, undisturbed):
    """Equal results, except for the recorded command, which differs between the command line and Python."""
    found, wanted = results(out), results(undisturbed)
    assert found.keys() == wanted.keys()
    return [name for name in found if found[name] != wanted[name] and not name.startswith("runs/")] == []


# -- every write, one after another


class Fickle:
    """A disk on which the first attempt to write each file or folder fails."""

    def __init__(self, monkeypatch):
        self.failed, self.sync = set(), os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, handle):
        name = re.sub(r"\.\d+\.part", "", os.readlink(f"/proc/self/fd/{handle}"))
        name = re.sub(r"unfinished/(\w+)/\.?\d+", r"unfinished/\1/N", name)
        if name not in self.failed:
            self.failed.add(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.sync(handle)


def test_every_write_may_fail_once(undisturbed, tmp_path, monkeypatch):
    out, disk, errors, done = tmp_path / "out", Fickle(monkeypatch), [], False
    while not done and len(errors) < 200:
        try:
            run_tiny(out, ["RePR"], "catch", checkpoint_every="60")
            done = True
        except StorageFailed as error:
            errors.append(str(error))
    assert done
    assert len(errors) == len(disk.failed)
    assert all("No space left on device; free some space and run the same command again" in line for line in errors)
    for kind in ("/.reaper.json", "/runs", "/stages", "/unfinished/", "/agent.safetensors", "/manifest.json"):
        assert any(kind in name for name in disk.failed), kind
    assert same_results(out, undisturbed)
    assert not list(out.rglob("*.part"))


def test_a_report_that_fails_can_be_repeated(undisturbed, tmp_path, monkeypatch, capfd):
    out = shutil.copytree(undisturbed, tmp_path / "out")
    before = contents(out)
    with monkeypatch.context() as patch:
        Fickle(patch)
        assert "No space left on device" in refused(capfd, 74, "report", out)
        assert contents(out) == before
        assert "No space left on device" in refused(capfd, 74, "report", out, "--markdown", tmp_path / "tables.md")
    assert command(capfd, "report", out)[0] == 0
    assert contents(out).items() > before.items()


@pytest.mark.parametrize("what", ["run", "weights"])
def test_an_export_that_fails_leaves_nothing(undisturbed, tmp_path, monkeypatch, capfd, what):
    disk, file = Fickle(monkeypatch), tmp_path / "pack.reaper"
    for _ in range(50):
        code, _ = command(capfd, "export", undisturbed, file, "--what", what, "--overwrite")
        assert not list(tmp_path.glob(".*"))
        if code == 0:
            break
        assert code == 74
    assert code == 0
    assert len(disk.failed) >= 2  # the pack, and the folder it is in


def test_an_import_that_fails_can_be_repeated(undisturbed, tmp_path, monkeypatch, capfd):
    file, out = tmp_path / "pack.reaper", tmp_path / "out"
    assert command(capfd, "export", undisturbed, file)[0] == 0
    Fickle(monkeypatch)
    failures = 0
    while (code := command(capfd, "import", file, out)[0]) == 74 and failures < 200:
        failures += 1
    assert code == 0
    assert failures > 10
    assert contents(out) == {n: d for n, d in contents(undisturbed).items() if not n.startswith("report/")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pack.reaper"]


# -- files that may not grow (everywhere), and small disks (where one may be mounted)


@contextmanager
def largest_file(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_may_not_grow(undisturbed, tmp_path, capfd):
    """Without any output, since output also goes to a file."""
    out = tmp_path / "out"
    sizes = sorted({len(data) for data in contents(undisturbed).values()})
    for size in [0, *sizes[:-1:3]]:
        with largest_file(size), pytest.raises(StorageFailed, match="File too large"):
            run_tiny(out, ["RePR"], "catch", checkpoint_every="60")
    with largest_file(10_000):
        assert "File too large" in refused(capfd, 74, "export", undisturbed, tmp_path / "pack.reaper")
        words = ["play", undisturbed, "--task", "catch", "--episodes", "1", "--video", tmp_path / "film.gif"]
        code, lines = command(capfd, *words)  # a line of progress, and the error
        assert (code, len(lines)) == (74, 2)
        assert "File too large" in lines[-1]
    run_tiny(out, ["RePR"], "catch", checkpoint_every="60")
    assert same_results(out, undisturbed)


def mount(*words):
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A small disk of its own; the check for free space before a run is switched off."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=16k", "reaper-test", str(folder)):
        pytest.skip("this process may not mount a disk")
    monkeypatch.setattr("reaper.study.preflight.shutil.disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 10**12))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up(undisturbed, disk, capfd):
    """It is enlarged until the run finishes; before that, every attempt ends in one line."""
    size, codes = 16_384, []
    while (not codes or codes[-1] != 0) and len(codes) < 40:
        code, lines = command(capfd, *run_args(disk / "out", "RePR", **WORDS))
        codes.append(code)
        if code:
            assert (code, len(lines)) == (74, 1), lines
            assert "No space left on device" in lines[0]
        size = int(size * 1.4)
        assert mount("-o", f"remount,size={size}", str(disk))
    assert codes[-1] == 0
    assert len(codes) > 8
    assert same_results(disk / "out", undisturbed)


def test_an_export_to_a_full_disk(undisturbed, disk, capfd):
    assert "No space left" in refused(capfd, 74, "export", undisturbed, disk / "pack.reaper")
    assert list(disk.iterdir()) == []


def test_a_read_only_disk(undisturbed, disk, capfd):
    assert mount("-o", "remount,size=64m", str(disk))
    out = shutil.copytree(undisturbed, disk / "out")
    assert mount("-o", "remount,ro", str(disk))
    before = contents(disk)
    for words in (
        run_args(out, "RePR", **WORDS),
        run_args(disk / "new", "RePR", **WORDS),
        ["report", out],
        ["export", out, disk / "pack.reaper"],
        ["verify", out, "--set-aside"],
    ):
        assert "Read-only file system" in refused(capfd, 74, *words)
    assert command(capfd, "play", out, "--task", "catch", "--episodes", "1")[0] == 0
    assert command(capfd, "verify", out)[0] == 0
    assert contents(disk) == before


# -- a folder that is removed


@pytest.mark.parametrize("event", ["started", "finished", "progress"])
def test_a_folder_that_vanishes_in_the_middle(undisturbed, tmp_path, event):
    out, seen = tmp_path / "out", []

    def take_away(stage, told):
        if told.name == event and stage.kind == "consolidate" and not seen:
            seen.append(event)
            out.rename(tmp_path / "elsewhere")

    study = plan_tiny(["RePR"], "catch", checkpoint_every="60")
    with pytest.raises(StorageFailed):
        run_plan(study, out, take_away)
    shutil.rmtree(out, ignore_errors=True)
    (tmp_path / "elsewhere").rename(out)
    run_tiny(out, ["RePR"], "catch", checkpoint_every="60")
    assert same_results(out, undisturbed)
