"""Resuming inside a stage.

Whatever a stage would lose when it is killed is a *part* with a state: weights, optimisers, replay, random streams,
counters. A stage sets up its parts as if it were new and hands each to its keeper; where there is a checkpoint, the
keeper puts the part's state back on the spot. Between two updates the stage tells its keeper that all parts fit
together, and the keeper saves them when that is due or when a stop was asked for.
"""

from __future__ import annotations

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
from reaper.storage.files import Folder, storing, write_folder

CHECKPOINT_FORMAT = 1


@dataclass(frozen=True)
class Interval:
    """How often to save: after so many seconds, or after so much work (agent steps; steps of a generator)."""

    seconds: float | None = 600.0
    work: int | None = None

    @classmethod
    def parse(cls, text: str) -> Interval:
        """`10m`, `30s`, `2h`, or a plain number of frames."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
        number = float(found[1]) if found else 0.0
        if not found or number <= 0 or (not found[2] and number != int(number)):
            raise UserError(f"--checkpoint-every takes minutes or frames (10m, 30s, 2h or 50000), not {text!r}")
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

    def opened(self, number: int) -> Folder:
        """One checkpoint; its files are checked when they are read."""
        saved = Folder(self.folder / str(number))
        saved.made()
        about = saved.manifest
        if (about.get("digest"), about.get("number")) != (self.digest, number):
            raise DamagedArtefact(saved.folder, "is the checkpoint of something else")
        if about.get("format") != CHECKPOINT_FORMAT:
            raise UserError(f"{saved.folder} was written by an incompatible version; delete it to start its stage anew")
        return saved

    def read(self, number: int) -> State:
        saved = self.opened(number)
        return unflatten({**saved.tensors("tensors"), **saved.document("others")})

    def newest(self) -> tuple[State, str]:
        """The newest good state (empty: there was none) and a remark where a damaged one was passed over."""
        remark = ""
        for number in reversed(numbers := self.numbers()):
            try:
                return self.read(number), remark
            except DamagedArtefact as error:
                remark = f"passed over a damaged checkpoint: {error}"
        if numbers:
            raise DamagedArtefact(self.folder, "holds no checkpoint that is whole")
        return {}, ""

    def write(self, tensors: Mapping[str, torch.Tensor], others: Mapping[str, Any]) -> None:
        number = max(self.numbers(), default=0) + 1
        about = {"format": CHECKPOINT_FORMAT, "digest": self.digest, "number": number}
        write_folder(self.folder / str(number), about, {"tensors": tensors}, {"others": others}, {})
        for old in self.numbers()[:-2]:
            with storing(self.folder):
                shutil.rmtree(self.folder / str(old))

    def sweep(self) -> None:
        """Removes what a killed process left half written."""
        for leftover in self.folder.glob(".*.part"):
            shutil.rmtree(leftover, ignore_errors=True)


class Checkpointer:
    """Saves and brings back the parts of one running stage. Without a shelf it only listens for stops."""

    def __init__(
        self,
        shelf: CheckpointDir | None = None,
        every: Interval | None = None,
        stop: Callable[[], bool] = lambda: False,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.shelf, self.every, self.stop = shelf, every or Interval(), stop
        self.parts = Parts()
        self.saved, self.stalled, self.bytes = 0, 0.0, 0
        self._found: State = {}
        if shelf:
            shelf.sweep()
            self._found, text = shelf.newest()
            if text:
                remark(text)
        self._staged: dict[str, torch.Tensor] = {}
        self._writer: threading.Thread | None = None
        self._failure: ReaperError | None = None
        self._last, self._work = time.monotonic(), 0

    def keep(self, name: str, part: Checkpointable) -> None:
        """From now on the part is in every checkpoint; if the one being resumed has it, it is put back now."""
        self.parts[name] = part
        if name in self._found:
            part.restore(self._found.pop(name))

    def reached(self, work: int = 0) -> None:
        """A moment at which all parts fit together, `work` after the last one."""
        self._work += work
        if self._failure:
            raise self._failure
        if self.stop():
            self.save()
            self.close()
            raise Stopped("stopped")
        due = self._work >= self.every.work if self.every.work else time.monotonic() - self._last >= self._seconds
        if due and not (self._writer and self._writer.is_alive()):
            self.save()

    @property
    def _seconds(self) -> float:
        return self.every.seconds if self.every.seconds is not None else float("inf")

    def save(self) -> None:
        """Copies the state at once and writes it while learning goes on."""
        if not self.shelf or not self.parts:
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
        """Into buffers that are kept from one checkpoint to the next, since fresh memory is slow to touch."""
        for name in set(self._staged) - set(tensors):
            del self._staged[name]
        for name, tensor in tensors.items():
            held = self._staged.get(name)
            if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
                held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
                self._staged[name] = held
            held.copy_(tensor, non_blocking=tensor.is_cuda)
        if any(tensor.is_cuda for tensor in tensors.values()):
            torch.cuda.synchronize()
        return dict(self._staged)

    def _write(self, tensors: Mapping[str, torch.Tensor], others: Mapping[str, Any]) -> None:
        assert self.shelf is not None
        try:
            self.shelf.write(tensors, others)
        except ReaperError as error:
            self._failure = error

    def _join(self) -> None:
        if self._writer:
            self._writer.join()
            self._writer = None
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """Waits for what is being written."""
        self._join()

    def cost(self) -> dict[str, Any]:
        """What checkpoints cost this process, for the record."""
        return {"written": self.saved, "stalled_seconds": round(self.stalled, 3), "bytes": self.bytes}


def check_finite(value: float, what: str, where: str) -> None:
    """Stops a stage whose numbers went wrong, before they are kept."""
    if value != value or value in (float("inf"), float("-inf")):
        raise Diverged(
            f"the loss of {what} became {value} at {where}; the last good checkpoint is kept. Look at the learning "
            "rate (--optimiser.learning-rate, --generator.learning-rate) and at the rewards of the task"
        )
