"""The machine and its processes."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def processor_name(device: torch.device) -> str:
    """The model name of the GPU or CPU; of a CPU only its architecture, if the system does not name the model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, models), "") or platform.processor() or platform.machine()


def die_with_parent(parent: int) -> None:
    """Asks Linux to kill this process as soon as its parent ends, for whatever reason. Does nothing elsewhere."""
    try:
        ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the request
