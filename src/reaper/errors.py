"""Errors that a user can cause or meet. Each is one line: what is wrong, where, and what to do. Each has its own exit
code, so that a job scheduler can tell a mistake from work that can be resumed."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)
# Of paths that no file can have, or that this user may not open. (A missing file may as well be a bug of ours.)
PATH_ERRORS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EINVAL)
MAX_LINE = 1_000


class ReaperError(Exception):
    """An error that is shown as one line, without a traceback."""

    exit_code = 1


class UserError(ReaperError):
    """A mistake that the user can correct; the same command would fail again."""

    exit_code = 2


class DamagedArtefact(UserError):
    """A file or folder that is not as it was written."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"{self.path} {self.what}; `reaper verify` on its run lists the damage and tells how to repair it"


class Diverged(ReaperError):
    """A loss or a weight became infinite or NaN; the last good checkpoint is kept."""

    exit_code = 70


class EnvironmentFailed(ReaperError):
    """An environment raised an exception, or a process that steps it has ended; the last checkpoint is kept."""

    details = ""  # the environment's traceback, shown above the line

    @classmethod
    def of(cls, name: str, what: str, traceback: str = "") -> EnvironmentFailed:
        error = cls(f"{name} failed: {' '.join(what.split())[:300]}; the same command resumes from the last checkpoint")
        error.details = traceback
        return error


class StorageFailed(ReaperError):
    """The disk is full, read-only or gone. What was written before is intact, and the same command resumes from it."""

    exit_code = 74


class Stopped(ReaperError):
    """A stop was requested. The state is saved, and the same command resumes from it."""

    exit_code = 75


def one_line(error: BaseException) -> str:
    """What an error says, on one line: a path or a name in it may hold anything, and a terminal would act on it."""
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(error))
    half = MAX_LINE // 2
    return line if len(line) <= MAX_LINE else f"{line[:half]} ... {line[-half:]}"


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for an unknown name, with the most similar known one."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.4)
    nearest = next((k for k in known if near and k.lower() == near[0]), None)
    hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
    return UserError(f"unknown {what} {name!r}; {hint}")
