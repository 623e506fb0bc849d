"""What the tests of damage share: looking at folders, running commands, and spoiling files."""

import random
import shutil

from reaper.cli.main import main


def contents(folder):
    """Every file but the locks, which each command touches, and what is only there for those who look on."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    besides = ("locks/", "live/", "tensorboard/")
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(besides)}


def results(out):
    """Every file that two equal runs have in common."""
    found = contents(out).items()
    return {
        n: data for n, data in found if n.startswith(("stages/", "runs/", "reaper.json")) and "provenance.json" not in n
    }


def command(capfd, *words):
    """The exit code of a command, and what it said on standard error without its progress."""
    capfd.readouterr()
    code = main([str(word) for word in words])
    lines = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("{")]
    return code, lines


def refused(capfd, code, *words):
    """Asserts that a command fails with this code and one line, and returns the line."""
    found, lines = command(capfd, *words)
    assert (found, len(lines)) == (code, 1), (words, found, lines)
    assert lines[0].startswith("reaper: ")
    return lines[0]


def truncated(path, other, chance):
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def emptied(path, other, chance):
    path.write_bytes(b"")


def flipped(path, other, chance):
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def removed(path, other, chance):
    path.unlink()


def swapped(path, other, chance):
    """For the file of the same name of a run with another seed."""
    shutil.copyfile(other, path)


DAMAGES = {spoil.__name__: spoil for spoil in (truncated, emptied, flipped, removed, swapped)}


def seeded(*names):
    return random.Random("/".join(names))
