"""The cost of a study before it starts: stages, agent steps, generator steps, and hours on this machine.

Hours are estimated from finished stages of the same kind in the output folder, which has one set of settings, so that
they take about equally long. Where there are none, a calibration of a few seconds measures the machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from reaper.bench.calibration import Calibration
from reaper.engines.resources import Resources
from reaper.storage.files import canonical
from reaper.storage.store import Store
from reaper.study.kinds.base import Load, Stage
from reaper.study.stages import load_of


def similarity_key(spec: Mapping[str, Any]) -> str:
    """Equal for stages of one store that take about equally long: the same work on whichever task, seed or agent."""
    settings = spec["settings"]
    sizes = [settings.get(part, {}).get(name) for part, name in (("network", "width"), ("long_term", "agent_steps"))]
    inputs = {name: spec.get(name) for name in ("kind", "axes", "items")}
    return canonical([inputs, sorted(spec["parents"]), len(spec.get("tasks", ())), sizes])


@dataclass(frozen=True)
class Cost:
    """What is left to do of a study."""

    stages: int
    done: int
    agent_steps: int  # left to do, as all below
    generator_steps: int
    hours: float
    from_finished: int  # number of stages whose time is known from finished ones
    from_calibration: int

    @property
    def source(self) -> str:
        """Where the hours come from, in words."""
        if not self.from_finished and not self.from_calibration:
            return "nothing is left to run"
        sources = [
            ("finished stages of the same kind", self.from_finished),
            ("a short calibration of this machine", self.from_calibration),
        ]
        return " and ".join(f"{source} ({count} stages)" for source, count in sources if count)


class CostEstimator:
    """Estimates studies for one output folder and one machine; nothing is measured twice."""

    def __init__(self, store: Store | None, reusable: Collection[str] = ()) -> None:
        """`reusable` are the digests of stages that will be taken from elsewhere."""
        self._finished = {*(store.stages() if store else ()), *reusable}
        self._unit_seconds: dict[tuple[str, str], float] = {}  # (unit, size of the networks) -> seconds
        times: dict[str, list[float]] = {}
        for artefact in map(store.stage, store.stages()) if store else ():
            if seconds := artefact.provenance().seconds:
                times.setdefault(similarity_key(artefact.spec), []).append(seconds)
        self._known = {key: sum(values) / len(values) for key, values in times.items()}

    def cost(self, stages: Sequence[Stage], resources: Resources) -> Cost:
        """`stages` are ordered parents first."""
        left = [stage for stage in stages if stage.digest not in self._finished]
        loads = [load_of(stage) for stage in left]
        known = [self._known.get(similarity_key(stage.spec)) for stage in left]
        seconds: dict[str, float] = {}
        earliest_end: dict[str, float] = {}
        for stage, load, usual in zip(left, loads, known, strict=True):
            seconds[stage.digest] = self._calibrated(stage, load, resources) if usual is None else usual
            start = max((earliest_end.get(parent, 0.0) for parent in stage.parents.values()), default=0.0)
            earliest_end[stage.digest] = start + seconds[stage.digest]
        # No schedule is shorter than the work shared by all workers, nor than the critical path.
        wall_seconds = max(sum(seconds.values()) / resources.workers, max(earliest_end.values(), default=0.0))
        total = sum(loads, Load())
        from_finished = sum(usual is not None for usual in known)
        return Cost(
            stages=len(stages),
            done=len(stages) - len(left),
            agent_steps=total.agent_steps,
            generator_steps=total.generator_steps,
            hours=wall_seconds / 3600,
            from_finished=from_finished,
            from_calibration=len(left) - from_finished,
        )

    def _calibrated(self, stage: Stage, load: Load, resources: Resources) -> float:
        """Each unit is measured once per size of observation and network."""
        size = canonical([stage.spec["settings"].get(part) for part in ("observation", "network")])
        seconds = 0.0
        for unit, amount in ((f.name, getattr(load, f.name)) for f in fields(load)):
            if amount:
                if (unit, size) not in self._unit_seconds:
                    self._unit_seconds[unit, size] = Calibration(stage, resources).seconds_per(unit)
                seconds += amount * self._unit_seconds[unit, size]
        return seconds
