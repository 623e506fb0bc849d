"""What a stage runs on, in words that name hardware and no machine."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def processor_name(device: torch.device) -> str:
    """The model of the GPU, or of the CPU where the system tells it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, models), "") or platform.processor() or platform.machine()
