"""The time that the unfinished stages of a folder will take, estimated from the wall times of finished ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class StageTime:
    """What is known about the time of one stage."""

    kind: Hashable  # stages of one kind take about equally long
    running: bool
    done: bool
    seconds: float | None  # wall time, once it is finished
    seconds_left: float | None  # by its own progress, while it runs


def time_left(stages: Iterable[StageTime]) -> tuple[float | None, bool]:
    """Seconds left if as many stages keep running at once as now, and whether that is only a lower bound: some
    unfinished stage is of a kind of which none has finished. None: nothing is running."""
    stages = list(stages)
    wall_times: dict[Hashable, list[float]] = {}
    for stage in stages:
        if stage.seconds is not None:
            wall_times.setdefault(stage.kind, []).append(stage.seconds)
    running = sum(stage.running for stage in stages)
    if not running:
        return None, False
    total, at_least = 0.0, False
    for stage in stages:
        if stage.done:
            continue
        usual = wall_times.get(stage.kind)
        at_least |= usual is None
        if stage.seconds_left is not None:
            total += stage.seconds_left
        elif usual is not None:
            total += fmean(usual)
    return total / running, at_least
