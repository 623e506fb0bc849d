"""The machine and its processes."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_CPU_INFO = Path("/proc/cpuinfo")
SECONDS_BETWEEN_LOOKS = 0.3  # at the parent, where the system does not watch it


def processor_name(device: torch.device) -> str:
    """The model name of the GPU or CPU; of a CPU only its architecture, if the system does not name the model."""
    if device.type == "cuda":
        import torch  # not at the top: a new process imports this module before anything that takes seconds

        return torch.cuda.get_device_name(device)
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, models), "") or platform.processor() or platform.machine()


def start_python(
    program: str, argument: str, descriptors: tuple[int, ...], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts a Python program that gets an argument, open file descriptors and environment variables, and prints
    nothing on standard output. Signals that stop a run are the parent's to handle: the program does not get them."""
    # Signals that are blocked now stay blocked in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program, argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=descriptors,
            env={**os.environ, **environment},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_worker(parent: int, function: str, *args: Any, watch_thread: bool = False) -> None:
    """The first call in a process that `parent` has started: makes it end with its parent, and only then imports the
    function ("package.module:name"), which may take seconds, and calls it."""
    die_with_parent(parent, watch_thread)
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*args)


def die_with_parent(parent: int, watch_thread: bool = False) -> None:
    """Ends this process as soon as its parent has ended, for whatever reason.

    The parent passes its own id in. A child that asks for it may be told that of another process, which adopts it when
    the parent is dead already. With `watch_thread`, a thread looks at it now and then: the system would also kill this
    process when the one thread of the parent ends that started it.
    """
    if watch_thread or not _killed_with_parent():
        threading.Thread(target=_watch, args=(parent,), name="watch parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before anybody watched it


def _killed_with_parent() -> bool:
    """Asks the system to kill this process with its parent; only Linux can."""
    try:
        return ctypes.CDLL(None).prctl(1, signal.SIGKILL) == 0  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
