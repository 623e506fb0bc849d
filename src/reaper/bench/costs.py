"""What a study will cost, said before it starts: stages, agent steps, generator steps, and hours on this machine.

Hours are predicted from finished stages of the same kind in the output folder, which has one set of settings, so that
they take about as long; where there are none, from a probe of a few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from reaper.bench.calibration import Probe
from reaper.engines.resources import Resources
from reaper.storage.files import canonical
from reaper.storage.store import Store
from reaper.study.kinds.base import Load, Stage
from reaper.study.stages import load_of


def likeness_of(spec: Mapping[str, Any]) -> str:
    """Equal for stages of one store that take about as long: the same work, on whichever task, seed or agent."""
    settings = spec["settings"]
    sizes = [settings.get(part, {}).get(name) for part, name in (("network", "width"), ("long_term", "agent_steps"))]
    inputs = {name: spec.get(name) for name in ("kind", "axes", "items")}
    return canonical([inputs, sorted(spec["parents"]), len(spec.get("tasks", ())), sizes])


# -- a whole study


@dataclass(frozen=True)
class Cost:
    """What is left to do of a study."""

    stages: int
    done: int
    agent_steps: int  # of what is left
    generator_steps: int
    hours: float
    learnt: int  # stages whose time is known from finished ones ...
    probed: int  # ... and from the probe

    @property
    def source(self) -> str:
        if not self.learnt and not self.probed:
            return "nothing is left to run"
        ways = [("finished stages like them", self.learnt), ("a short probe of this machine", self.probed)]
        return " and ".join(f"{way} ({count} stages)" for way, count in ways if count)


class Forecast:
    """Predicts studies for one output folder and one machine; what it has measured it measures only once."""

    def __init__(self, store: Store | None) -> None:
        self.units: dict[tuple[str, str], float] = {}  # (unit, size of the networks) -> seconds
        self.finished = set(store.stages()) if store else set()
        times: dict[str, list[float]] = {}
        for digest in self.finished:
            artefact = store.stage(digest) if store else None
            if artefact and (seconds := artefact.provenance().seconds):
                times.setdefault(likeness_of(artefact.spec), []).append(seconds)
        self.known = {likeness: sum(values) / len(values) for likeness, values in times.items()}

    def cost(self, stages: Sequence[Stage], resources: Resources) -> Cost:
        """`stages` are in an order in which parents come first."""
        left = [stage for stage in stages if stage.digest not in self.finished]
        loads = [load_of(stage) for stage in left]
        known = {stage.digest: self.known.get(likeness_of(stage.spec)) for stage in left}
        seconds: dict[str, float] = {}
        ends: dict[str, float] = {}  # when each could be done at the earliest
        for stage, load in zip(left, loads, strict=True):
            took = known[stage.digest]
            seconds[stage.digest] = self._probed(stage, load, resources) if took is None else took
            begin = max((ends.get(parent, 0.0) for parent in stage.parents.values()), default=0.0)
            ends[stage.digest] = begin + seconds[stage.digest]
        together = max(sum(seconds.values()) / resources.workers, max(ends.values(), default=0.0))
        total = sum(loads, Load())
        learnt = sum(took is not None for took in known.values())
        return Cost(
            len(stages),
            len(stages) - len(left),
            total.agent_steps,
            total.generator_steps,
            together / 3600,
            learnt,
            len(left) - learnt,
        )

    def _probed(self, stage: Stage, load: Load, resources: Resources) -> float:
        """Every unit is tried once for every size of frame and network."""
        size = canonical([stage.spec["settings"].get(part) for part in ("observation", "network")])
        seconds = 0.0
        for unit, amount in ((f.name, getattr(load, f.name)) for f in fields(load)):
            if amount:
                if (unit, size) not in self.units:
                    self.units[unit, size] = Probe(stage, resources).seconds(unit)
                seconds += amount * self.units[unit, size]
        return seconds
