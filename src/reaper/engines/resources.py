"""What stages are run with: the device, processes, threads and the checkpoint interval. None of it changes a result."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path

import torch

from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.errors import UserError
from reaper.storage.checkpoints import Interval
from reaper.study.options import StudyOptions
from reaper.study.stage_run import StageResources
from reaper.tasks.observation import state_spec


@dataclass(frozen=True)
class Resources:
    """What an engine may use."""

    device: str = "cpu"  # "auto": the engine decides where a stage runs
    workers: int = 1  # stages run at the same time
    threads: int = 1  # of PyTorch, per stage
    checkpoint_interval: Interval = field(default_factory=Interval)
    emulator_threads: int | None = None  # per Atari task; None: as many as suit the machine
    env_workers: int | None = None  # processes per other Gymnasium task; 0: none but the stage's own; None: measured
    concurrent_eval: bool = True  # whether evaluations may run in a separate process, where that pays

    def for_stage(self, device: str | None = None) -> StageResources:
        """What one stage may use."""
        return StageResources(
            device=torch.device(device or self.device),
            checkpoint_interval=self.checkpoint_interval,
            emulator_threads=self.emulator_threads,
            env_workers=self.env_workers,
            concurrent_eval=self.concurrent_eval,
        )


def resolve_resources(options: StudyOptions, settings: Settings, remote: bool = False) -> Resources:
    """What the options ask for; `remote`: stages run on other machines, whose devices only the engine knows."""
    small = is_small(state_spec(settings.observation))
    cores = len(os.sched_getaffinity(0))
    # Small networks gain nothing from a second thread, so every core gets a stage of its own; large ones share cores.
    workers = options.workers or (cores if small else 1)
    device = resolve_device(options.device, remote)
    # With a GPU one thread is best: more would take cores from the emulators and gain nothing.
    one_thread = small or device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    return Resources(
        device=device,
        workers=workers,
        threads=1 if one_thread else max(1, cores // workers),
        checkpoint_interval=Interval.parse(options.checkpoint_every),
        emulator_threads=options.emulator_threads,
        env_workers=options.env_workers,
        concurrent_eval=options.concurrent_eval,
    )


def resolve_device(name: str, remote: bool = False) -> str:
    """`auto` is the GPU if there is one; on a `remote` machine it stays `auto`."""
    if name == "auto":
        if remote:
            return name
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UserError(f"unknown --device {name!r}; use auto, cpu or cuda") from None
    if not remote and kind == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but no CUDA device is available; use --device cpu")
    return name


def free_memory(device: str) -> int | None:
    """Bytes free on the device; None if unknown."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def keep_freed_memory() -> None:
    """Tells glibc to keep freed blocks for the next update instead of returning them to the system: the page faults
    would take up to a third of the time. Does nothing on other platforms."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD: blocks up to 64 MiB come from the heap ...
        libc.mallopt(-1, 512 << 20)  # M_TRIM_THRESHOLD: ... whose free end is kept
    except (OSError, AttributeError):
        return
