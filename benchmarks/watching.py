"""What watching costs: the same arcade stage with and without signs of life and TensorBoard's curves, in turn.

    python benchmarks/watching.py [--rounds 5] [--fraction 0.2]

Processor time of the training process, since that is what curves take from training; the best of each, since whatever
else runs on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reaper import study
from reaper.engines.local import Listener
from reaper.progress import Event
from reaper.stages import Stage
from reaper.store import Store


@contextmanager
def unattended(store: Store, names: object, listen: Listener, tensorboard: bool, wandb: bool) -> Iterator[Listener]:
    yield listen


def seconds(plan: study.Plan, attended: bool) -> float:
    """Processor seconds from the first frame of the teacher to its end."""
    began, ended = [], []

    def listen(stage: Stage, event: Event) -> None:
        if stage.kind == "short-term":
            (ended if event.get("event") == "finished" else began).append(time.process_time())

    attending = study.attending
    study.attending = attending if attended else unattended
    try:
        with tempfile.TemporaryDirectory() as folder:
            study.carry_out(plan, Path(folder) / "out", listen)
    finally:
        study.attending = attending
    return ended[-1] - began[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fraction", type=float, default=0.2)
    arguments = parser.parse_args()
    plan = study.plan(["single"], "catch", fraction=arguments.fraction, device="cpu", workers=1)
    frames = plan.chains[0].settings.short_term.observed_frames
    seconds(plan, True)  # everything is imported and warm
    rounds = [(seconds(plan, False), seconds(plan, True)) for _ in range(arguments.rounds)]
    without, attended = (min(column) for column in zip(*rounds, strict=True))
    told = {"observed_frames": frames, "seconds_without": round(without, 3), "seconds_with": round(attended, 3)}
    print(json.dumps({**told, "ratio": round(attended / without, 4)}, indent=1))


if __name__ == "__main__":
    main()
