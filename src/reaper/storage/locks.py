"""Locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from reaper.errors import UserError
from reaper.storage.files import storing


class Lock:
    """A lock on a path, held through an open file: the system releases it when its process ends, however it ends.

    Works between machines where the file system supports flock, as NFS (version 3 with its lock daemon, 4 natively),
    Lustre (mounted with flock) and GPFS do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self, shared: bool = False) -> bool:
        """Whether the lock could be acquired at once."""
        with storing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with storing(self.path):
                file = self.path.open("a")
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            except OSError as error:
                file.close()
                raise UserError(
                    f"{self.path} cannot be locked ({error.strerror}); choose an --out on a file system with locks"
                ) from None
            if self._is_still(file):
                self._file = file
                return True
            file.close()  # its last holder has just removed it

    def _is_still(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except OSError:
            return False

    def release(self, remove: bool = False) -> None:
        if self._file:
            if remove:
                self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None
