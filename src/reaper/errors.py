"""The errors a user can cause. Each is one line: what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right; the command line prints it as one line and exits with code 2."""


class DamagedArtefact(UserError):
    """A file that does not match the checksum it was written with."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not known, naming the nearest one that is."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.4)
    nearest = next((k for k in known if near and k.lower() == near[0]), None)
    hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
    return UserError(f"unknown {what} {name!r}; {hint}")
