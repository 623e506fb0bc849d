"""What tests of damage share: reading folders, running commands, and damaging files."""

import random
import shutil

from reaper.cli.main import main


def contents(folder):
    """Every file except the locks, which each command touches, and files for monitoring."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    monitoring = ("locks/", "live/", "tensorboard/")
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(monitoring)}


def results(out):
    """Every file that is the same in two equal runs."""
    found = contents(out).items()
    return {
        n: data for n, data in found if n.startswith(("stages/", "runs/", "reaper.json")) and "provenance.json" not in n
    }


def command(capfd, *words):
    """The exit code of a command, and its lines on standard error without progress."""
    capfd.readouterr()
    code = main([*map(str, words), *(["--quiet"] if words[0] in ("run", "experiment") else [])])
    return code, capfd.readouterr().err.splitlines()


def refused(capfd, code, *words):
    """Asserts that a command fails with this code and one line, and returns the line."""
    found, lines = command(capfd, *words)
    assert (found, len(lines)) == (code, 1), (words, found, lines)
    assert lines[0].startswith("reaper: ")
    return lines[0]


def truncated(path, other, rng):
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def emptied(path, other, rng):
    path.write_bytes(b"")


def flipped(path, other, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def removed(path, other, rng):
    path.unlink()


def swapped(path, other, rng):
    """With the file of the same name of a run with another seed."""
    shutil.copyfile(other, path)


DAMAGES = {damage.__name__: damage for damage in (truncated, emptied, flipped, removed, swapped)}


def seeded(*names):
    return random.Random("/".join(names))
