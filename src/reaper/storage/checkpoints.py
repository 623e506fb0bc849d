"""Checkpoints: saving and resuming a stage that is being run.

Whatever a killed stage would lose is a part with a state (state.py): weights, optimisers, replay, random number
generators, counters. A stage builds its parts as if it were new and registers each with its `Checkpointer`, which
restores the part at once if there is a checkpoint. Between two updates, when all parts fit together, the stage calls
`maybe_save`, which writes a checkpoint when one is due or when a stop was requested.
"""

from __future__ import annotations

import math
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reaper.errors import DamagedArtefact, Diverged, ReaperError, Stopped, UserError
from reaper.state import Checkpointable, Parts, State, flatten, unflatten
from reaper.storage.checksummed_dir import ChecksummedDir, write_checksummed_dir
from reaper.storage.files import storing
from reaper.storage.manifests import CHECKPOINT_FORMAT, CheckpointManifest, Provenance

KEPT = 2  # checkpoints per stage: should the newest be damaged, there is one before it


@dataclass(frozen=True)
class Interval:
    """How often to save: after so many seconds, or after so much work (agent steps, or steps of a generator)."""

    seconds: float | None = 600.0
    work: int | None = None

    @classmethod
    def parse(cls, text: str) -> Interval:
        """`10m`, `30s`, `2h`, or a plain number of agent steps."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
        number = float(found[1]) if found else 0.0
        if not found or not 0 < number < math.inf or (not found[2] and number != int(number)):
            raise UserError(f"--checkpoint-every takes a time or agent steps (10m, 30s, 2h or 50000), not {text!r}")
        if not found[2]:
            return cls(None, int(number))
        return cls(number * {"s": 1, "m": 60, "h": 3600}[found[2]])

    def __str__(self) -> str:
        return f"{self.work}" if self.seconds is None else f"{self.seconds:g}s"


class CheckpointDir:
    """The checkpoints of one stage on disk: numbered folders, of which the two newest are kept."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder, self.digest = folder, digest

    def numbers(self) -> list[int]:
        found = self.folder.glob("[0-9]*") if self.folder.is_dir() else ()
        return sorted(int(path.name) for path in found if path.name.isdigit())

    def open(self, number: int) -> ChecksummedDir:
        """One checkpoint; its files are verified when they are read."""
        saved = ChecksummedDir(self.folder / str(number))
        saved.provenance()
        found = saved.contents.get("format")
        if found != CHECKPOINT_FORMAT:
            raise UserError(
                f"{saved.folder} was written by another version of reaper (format {str(found)[:20]}); delete it to "
                "start its stage again"
            )
        manifest = CheckpointManifest.from_json(saved.contents, saved.folder)
        if manifest != CheckpointManifest(self.digest, number):
            raise DamagedArtefact(saved.folder, "is the checkpoint of another stage")
        return saved

    def read(self, number: int) -> State:
        saved = self.open(number)
        return unflatten({**saved.tensors("tensors"), **saved.document("others")})

    def newest(self) -> tuple[State, str]:
        """The newest intact state (empty if there was none), and a remark if a damaged one was skipped."""
        remark = ""
        for number in reversed(numbers := self.numbers()):
            try:
                return self.read(number), remark
            except DamagedArtefact as error:
                remark = f"skipped a damaged checkpoint: {error}"
        if numbers:
            raise DamagedArtefact(self.folder, "holds no intact checkpoint")
        return {}, ""

    def write(self, tensors: Mapping[str, torch.Tensor], others: Mapping[str, Any]) -> None:
        number = max(self.numbers(), default=0) + 1
        write_checksummed_dir(
            self.folder / str(number),
            about=CheckpointManifest(self.digest, number).to_json(),
            tensors={"tensors": tensors},
            documents={"others": others},
            provenance=Provenance(),
        )
        for old in self.numbers()[:-KEPT]:
            with storing(self.folder):
                shutil.rmtree(self.folder / str(old))

    def sweep(self) -> None:
        """Removes what a killed process left incomplete."""
        for leftover in self.folder.glob(".*.part"):
            shutil.rmtree(leftover, ignore_errors=True)


class Checkpointer:
    """Saves and restores the parts of one running stage. Without a folder it only reacts to stops."""

    def __init__(
        self,
        folder: CheckpointDir | None = None,
        every: Interval | None = None,
        stop: Callable[[], bool] = lambda: False,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder, self.every, self.stop = folder, every or Interval(), stop
        self.parts = Parts()
        self.saved, self.stalled, self.bytes = 0, 0.0, 0
        self._found: State = {}
        if folder:
            folder.sweep()
            self._found, text = folder.newest()
            if text:
                remark(text)
        self._staged: dict[str, torch.Tensor] = {}
        self._writer: threading.Thread | None = None
        self._failure: ReaperError | None = None
        self._last, self._work = time.monotonic(), 0

    def register(self, name: str, part: Checkpointable) -> None:
        """Includes a part in every checkpoint from now on, and restores it if the stage resumes from one."""
        self.parts[name] = part
        if name in self._found:
            part.restore(self._found.pop(name))

    def maybe_save(self, work: int = 0) -> None:
        """Saves if a checkpoint is due, `work` after the last call; if a stop was requested, saves and raises Stopped.

        Call it only when all parts fit together.
        """
        self._work += work
        if self._failure:
            raise self._failure
        self.stop_if_requested()
        due = self._work >= self.every.work if self.every.work else time.monotonic() - self._last >= self._seconds
        if due and not (self._writer and self._writer.is_alive()):
            self.save()

    def stop_if_requested(self) -> None:
        """Saves and raises Stopped if a stop was requested. While parts of the checkpoint that the stage resumes from
        are still to be registered, that checkpoint holds more than a new one would, and stays."""
        if self.stop():
            if not self._found:
                self.save()
            self.close()
            raise Stopped("stopped")

    def raise_if_stopped(self) -> None:
        """Raises Stopped if a stop was requested: while the stage is restored from a checkpoint, which stays valid."""
        if self.stop():
            raise Stopped("stopped")

    @property
    def _seconds(self) -> float:
        return self.every.seconds if self.every.seconds is not None else float("inf")

    def save(self) -> None:
        """Copies the state now, and writes it while learning continues."""
        if not self.folder or not self.parts:
            return
        self._join()
        started = time.monotonic()
        tensors, others = flatten(self.parts.state())
        copies = self._copy(tensors)
        for name, tensor in copies.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise Diverged(f"{name} is no longer finite; the last good checkpoint is kept")
        self._writer = threading.Thread(target=self._write, args=(copies, others), daemon=True)
        self._writer.start()
        self._last, self._work = time.monotonic(), 0
        self.saved += 1
        self.stalled += self._last - started
        self.bytes = sum(t.numel() * t.element_size() for t in copies.values())

    def _copy(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Into buffers that are reused from one checkpoint to the next: page faults on fresh memory are slow."""
        for name in set(self._staged) - set(tensors):
            del self._staged[name]
        for name, tensor in tensors.items():
            buffer = self._staged.get(name)
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
                self._staged[name] = buffer
            buffer.copy_(tensor, non_blocking=tensor.is_cuda)
        if any(tensor.is_cuda for tensor in tensors.values()):
            torch.cuda.synchronize()
        return dict(self._staged)

    def _write(self, tensors: Mapping[str, torch.Tensor], others: Mapping[str, Any]) -> None:
        assert self.folder is not None
        try:
            self.folder.write(tensors, others)
        except ReaperError as error:
            self._failure = error

    def _join(self) -> None:
        if self._writer:
            self._writer.join()
            self._writer = None
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """Waits for the checkpoint that is being written."""
        self._join()

    def cost(self) -> dict[str, Any]:
        """What checkpoints cost this process, for the provenance of the stage."""
        return {"written": self.saved, "stalled_seconds": round(self.stalled, 3), "bytes": self.bytes}


def check_finite(value: float, what: str, where: str) -> None:
    """Raises Diverged for a loss that is not finite, before its weights are saved."""
    if value != value or value in (float("inf"), float("-inf")):
        raise Diverged(
            f"the loss of {what} became {value} at {where}; the last good checkpoint is kept. Check the learning rates "
            "and the rewards of the task"
        )
