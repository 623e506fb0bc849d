"""The cost of a checkpoint at Atari size: how long training stalls, and how much it slows down until it is written.

Short-term learning of ALE/Boxing-v5 with the paper's replay of 200,000 frames, full. Speeds with and without a
checkpoint are measured in turn; the result is the share of time lost at the default interval of ten minutes.

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

DEFAULT_INTERVAL = Interval().seconds or 0.0


class Training:
    """Short-term learning with a full replay, and its checkpointer."""

    def __init__(self, device: torch.device, folder: CheckpointDir) -> None:
        self.device, self.checkpointer = device, Checkpointer(folder, Interval(10**9))
        options = compile_options(PAPER, device)
        context = Context(PAPER, 18, 0, ("benchmark",), device, checkpointer=self.checkpointer, **options)
        self.learner = ShortTerm(context, find_task("ALE/Boxing-v5"))
        self.trainer = self.learner.trainer
        self.trainer.agent_steps = self.trainer.evaluated_at = PAPER.training.learning_starts
        replay = self.learner.experience.replay
        replay.frames.random_()
        replay.size.fill_(replay.slots)
        self.checkpointer.register("trainer", self.trainer)
        self.trainer.train_to(PAPER.training.learning_starts + 20 * PAPER.training.num_envs)
        self.learner.experience.actor.reset(1)

    def train(self, seconds: float, until_written: bool = False) -> tuple[int, float]:
        """Trains for some seconds, or until the checkpoint is on disk; returns agent steps and seconds."""
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
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long the speed without a checkpoint is measured"
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda":
        torch.set_num_threads(1)
    prepare_torch(device)
    keep_freed_memory()
    folder = Path(tempfile.mkdtemp(prefix="checkpoints-", dir="."))
    training = Training(device, CheckpointDir(folder / "checkpoints", "benchmark"))
    rows = []
    for number in range(arguments.repeats + 1):
        steps, seconds = training.train(arguments.seconds)
        rate, stalled, start = steps / seconds, training.checkpointer.stalled, time.perf_counter()
        training.checkpointer.save()
        steps, _ = training.train(0.0, until_written=True)
        lost = time.perf_counter() - start - steps / rate
        training.checkpointer.close()
        row = {"steps_per_second": round(rate), "stalled_seconds": round(training.checkpointer.stalled - stalled, 3)}
        row |= {"lost_seconds": round(lost, 3), "bytes": training.checkpointer.bytes, "first": number == 0}
        print(json.dumps(row), flush=True)
        rows.append(row)
    training.learner.close()
    shutil.rmtree(folder)
    lost = statistics.median(row["lost_seconds"] for row in rows[1:])
    size, share = rows[-1]["bytes"] / 1e9, 100 * lost / DEFAULT_INTERVAL
    print(f"a checkpoint of {size:.2f} GB costs {lost:.2f} s: {share:.2f} % of the time at one per 10 minutes")


if __name__ == "__main__":
    main()
