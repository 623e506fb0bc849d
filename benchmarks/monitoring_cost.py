"""The cost of monitoring: processor time of arcade training with and without heartbeat and TensorBoard curves.

Any two consecutive points of the training curve are about equally many agent steps apart. Every other interval is
monitored, and the processor time of the training thread is compared between the two kinds of interval. The heartbeat
runs in a thread of its own every two seconds; its processor time per beat is reported separately.

    python benchmarks/monitoring_cost.py [--rounds 1] [--fraction 1.0]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from reaper.engines.base import Listener
from reaper.engines.execute import execute
from reaper.monitoring.heartbeat import Heartbeat
from reaper.monitoring.listeners import monitor
from reaper.progress import CurvePoints, Event, PhaseProgress
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage
from reaper.study.options import StudyOptions
from reaper.study.plan import Plan, plan


class Alternating:
    """A listener that is monitored in every other interval of the training curve, and times the intervals."""

    def __init__(self) -> None:
        self.seconds: dict[bool, list[float]] = {True: [], False: []}  # monitored -> of each interval
        self._monitored, self._valid, self._begun = False, False, 0.0
        self.monitor: Listener = ignore

    def __call__(self, stage: Stage, event: Event) -> None:
        if isinstance(event, CurvePoints) and "training/loss" in event.values:
            self._next_interval()
        elif not isinstance(event, PhaseProgress):
            self._valid = False  # an interval with an evaluation, or with the start or end of a stage
        if self._monitored:
            self.monitor(stage, event)

    def _next_interval(self) -> None:
        now = time.thread_time()
        if self._valid:
            self.seconds[self._monitored].append(now - self._begun)
        self._monitored, self._valid, self._begun = not self._monitored, True, now


def ignore(stage: Stage, event: Event) -> None: ...


def run(study: Plan, options: StudyOptions, listener: Alternating) -> None:
    @contextmanager
    def listeners(store: Store) -> Iterator[Listener]:
        with monitor(store, [chain.name for chain in study.chains], ignore) as listener.monitor:
            yield listener

    execute(study, options, listeners)


def seconds_per_beat(beats: int = 200) -> float:
    """Processor time of one beat of the heartbeat, with one running stage."""
    with tempfile.TemporaryDirectory() as folder:
        stage = plan(["single"], StudyOptions(tasks="catch", device="cpu")).stages[0]
        heartbeat = Heartbeat(Store(folder), print)
        heartbeat(stage, PhaseProgress("learn", "agent steps", 1, 2))
        started = time.thread_time()
        for _ in range(beats):
            heartbeat.beat()
        return (time.thread_time() - started) / beats


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0)
    arguments = parser.parse_args()
    options = StudyOptions(tasks="catch", fraction=arguments.fraction, device="cpu", workers=1)
    listener = Alternating()
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            run(plan(["single"], options), replace(options, out=Path(folder) / "out"), listener)
    monitored, alone = (statistics.median(listener.seconds[kind]) for kind in (True, False))
    found = {"intervals": len(listener.seconds[True]), "ms_monitored": 1e3 * monitored, "ms_alone": 1e3 * alone}
    print(json.dumps({**found, "ratio": monitored / alone, "ms_per_beat": 1e3 * seconds_per_beat()}, indent=1))


if __name__ == "__main__":
    main()
