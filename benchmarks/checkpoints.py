"""What a checkpoint costs at Atari size: how long learning stands still, and what it loses until the file is written.

Short-term learning of ALE/Boxing-v5 with the paper's replay of 200,000 frames, full. Rates are taken without and around
checkpoints in one run, so that the share at the default interval of ten minutes can be told.

    python benchmarks/checkpoints.py [--device cpu|cuda] [--seconds 20] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch

from reaper.compute.compilation import prepare_torch
from reaper.config.presets import PAPER
from reaper.context import Context, compile_options
from reaper.engines.resources import keep_freed_memory
from reaper.learning.short_term import ShortTerm
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.tasks.sequence import find_task

DEFAULT = Interval().seconds or 0.0


class Learning:
    """A learner in the middle of its work, and what it keeps."""

    def __init__(self, device: torch.device, shelf: CheckpointDir) -> None:
        self.device, self.checkpointer = device, Checkpointer(shelf, Interval(10**9))
        options = compile_options(PAPER, device)
        context = Context(PAPER, 18, 0, ("benchmark",), device, checkpointer=self.checkpointer, **options)
        self.learner = ShortTerm(context, find_task("ALE/Boxing-v5"))
        self.trainer = self.learner.trainer
        self.trainer.agent_steps = self.trainer.seam = PAPER.training.learning_starts
        replay = self.learner.replay
        replay.frames.random_()
        replay.size.fill_(replay.slots)
        self.checkpointer.register("practice", self.trainer)
        self.trainer.run_to(PAPER.training.learning_starts + 20 * PAPER.training.num_envs)

        self.trainer.actor.begin(1)  # pyright: ignore[reportOptionalMemberAccess]

    def frames_in(self, seconds: float, until_written: bool = False) -> tuple[int, float]:
        """Steps for so long, or until the checkpoint is on disk; the frames made and the seconds they took."""
        first, start = self.trainer.agent_steps, time.perf_counter()
        writer = self.checkpointer._writer
        while time.perf_counter() - start < seconds or (until_written and writer and writer.is_alive()):
            self.trainer.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return self.trainer.agent_steps - first, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the plain rate is taken each time")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda":
        torch.set_num_threads(1)
    prepare_torch(device)
    keep_freed_memory()
    folder = Path(tempfile.mkdtemp(prefix="checkpoints-", dir="."))
    learning = Learning(device, CheckpointDir(folder / "shelf", "benchmark"))
    rows = []
    for number in range(arguments.repeats + 1):
        frames, seconds = learning.frames_in(arguments.seconds)
        rate, stalled, start = frames / seconds, learning.checkpointer.stalled, time.perf_counter()
        learning.checkpointer.save()
        made, _ = learning.frames_in(0.0, until_written=True)
        lost = time.perf_counter() - start - made / rate
        learning.checkpointer.close()
        row = {"steps_per_second": round(rate), "stalled_seconds": round(learning.checkpointer.stalled - stalled, 3)}
        row |= {"lost_seconds": round(lost, 3), "bytes": learning.checkpointer.bytes, "first": number == 0}
        print(json.dumps(row), flush=True)
        rows.append(row)
    learning.learner.close()
    shutil.rmtree(folder)
    lost = statistics.median(row["lost_seconds"] for row in rows[1:])
    size, share = rows[-1]["bytes"] / 1e9, 100 * lost / DEFAULT
    print(f"a checkpoint of {size:.2f} GB loses {lost:.2f} s: {share:.2f} % at 10 minutes")


if __name__ == "__main__":
    main()
