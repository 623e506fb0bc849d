"""How a process that helps another one behaves."""

from __future__ import annotations

import ctypes
import os
import signal


def die_with_parent(parent: int) -> None:
    """Where the system can, this process is killed as soon as its parent ends, however that ends."""
    try:
        ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)  # it died before we had asked
