"""Single files that users name: complete or absent, and refused before any work where they cannot be written."""

import os
from pathlib import Path

import pytest

from reaper.errors import UserError
from reaper.storage.files import atomic_file, atomic_write, check_output_file


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file"
    atomic_write(path, b"first")

    def fail_halfway():
        with atomic_file(path) as part:
            part.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert path.read_bytes() == b"first"
    assert list(path.parent.iterdir()) == [path]


def test_a_pipe_or_device_is_written_to_and_not_replaced(tmp_path):
    """`--markdown /dev/stdout`. A file in place of /dev/null would break the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(pipe, b"text")
    assert os.read(reader, 10) == b"text"
    assert pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "'.' is a folder"),
        ("folder", "is a folder"),
        ("file/below", "file is not a folder"),
        ("file/deep/below", "file is not a folder"),
        ("dangling/below", "dangling is not a folder"),
    ],
)
def test_what_cannot_be_a_file_is_refused_at_once(name, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match=why):
        check_output_file(Path(name))
    check_output_file(tmp_path / "file")  # may be replaced
    check_output_file(tmp_path / "new" / "deep" / "file")


def test_a_folder_without_permission_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(UserError, match="no permission to write to"):
        check_output_file(tmp_path / "file")
