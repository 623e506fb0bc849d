"""What watching costs: arcade training with and without signs of life and TensorBoard's curves, in turn in one run.

Between any two points of the training curve lie about equally many agent steps. Every other stretch is told to
nobody, and the processor time that the training thread takes for one kind is held against the other. Signs of life come
from a thread of their own every two seconds; what one takes is given beside.

    python benchmarks/watching.py [--rounds 1] [--fraction 1.0]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reaper.engines.local import Listener
from reaper.monitoring.heartbeat import Pulses
from reaper.monitoring.listeners import attending
from reaper.progress import Event
from reaper.storage.store import Store
from reaper.study import plan as study
from reaper.study.stages import Stage


class InTurn:
    """Tells everyone, or nobody but the terminal, from one point of the training curve to the next."""

    def __init__(self) -> None:
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self.watched, self.tested, self.marked = False, True, 0.0

    @contextmanager
    def attending(
        self, store: Store, names: list[str], listen: Listener, tensorboard: bool, wandb: bool
    ) -> Iterator[Listener]:
        with attending(store, names, listen, tensorboard, wandb) as tell:

            def tell_in_turn(stage: Stage, event: Event) -> None:
                if "training/loss" in event.get("values", ()):
                    self._turn()
                elif event.get("event"):
                    self.tested = True  # a stretch with a test in it, or with the start or the end of a stage
                (tell if self.watched else listen)(stage, event)

            yield tell_in_turn

    def _turn(self) -> None:
        now = time.thread_time()
        if not self.tested:
            self.seconds[self.watched].append(now - self.marked)
        self.watched, self.tested, self.marked = not self.watched, False, now


def beating_seconds(beats: int = 200) -> float:
    """Processor time of one sign of life of one stage."""
    with tempfile.TemporaryDirectory() as folder:
        stage = study.plan(["single"], "catch", device="cpu").stages[0]
        pulses = Pulses(Store(folder), print)
        pulses(stage, {"phase": "learn", "unit": "frames", "done": 1, "total": 2, "score": None})
        started = time.thread_time()
        for _ in range(beats):
            pulses.beat()
        return (time.thread_time() - started) / beats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0)
    arguments = parser.parse_args()
    plan = study.plan(["single"], "catch", fraction=arguments.fraction, device="cpu", workers=1)
    in_turn = InTurn()
    study.attending = in_turn.attending
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            study.execute(plan, Path(folder) / "out", lambda stage, event: None)
    watched, alone = (statistics.median(in_turn.seconds[kind]) for kind in (True, False))
    told = {"stretches": len(in_turn.seconds[True]), "ms_watched": 1e3 * watched, "ms_alone": 1e3 * alone}
    print(json.dumps({**told, "ratio": watched / alone, "ms_a_beat": 1e3 * beating_seconds()}, indent=1))


if __name__ == "__main__":
    main()
