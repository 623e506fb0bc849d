"""The errors a user can cause or meet. Each is one line: what, where, and what to do; each has its exit code, so that a
scheduler can tell "wrong" from "not yet done"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class ReaperError(Exception):
    """Something that is said in one line, without a traceback."""

    exit_code = 1


class UserError(ReaperError):
    """Something the user can put right; running the same command again would fail again."""

    exit_code = 2


class DamagedArtefact(UserError):
    """A file or folder that is not as it was written: where, and what is wrong with it."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"{self.path} {self.what}; `reaper verify` on its run says what is damaged and how it is made again"


class Diverged(ReaperError):
    """A loss or a weight became infinite or not a number; the last good checkpoint is kept."""

    exit_code = 70


class StorageFailed(ReaperError):
    """The disk is full, read-only or gone; what was written before is whole, and the same command goes on from it."""

    exit_code = 74


class Stopped(ReaperError):
    """Asked to stop; the state is saved, and the same command goes on from it."""

    exit_code = 75


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not known, naming the nearest one that is."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.4)
    nearest = next((k for k in known if near and k.lower() == near[0]), None)
    hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
    return UserError(f"unknown {what} {name!r}; {hint}")
