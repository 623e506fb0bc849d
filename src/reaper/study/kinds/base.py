"""What a stage is, and what has to be known about a kind of stage.

A stage's spec is plain JSON: its kind, the settings it depends on, its other inputs, and the digests of its parents.
The digest of the spec names the stage, so equal stages of different conditions and runs are one stage.

A spec contains only settings that differ from their defaults, and only of the groups and methods that the stage
depends on. So a new setting with a default changes no digest, and stages that do not depend on a setting are shared
between runs that differ in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from reaper.config.settings import Settings
from reaper.config.sparse_json import to_json
from reaper.storage.files import digest_of
from reaper.storage.manifests import SPEC_FORMAT, StageManifest
from reaper.study.stage_run import Result, StageRun

# Everything that learning one task in the short-term system depends on.
SHORT_TERM_GROUPS = ("observation", "network", "optimiser", "training", "short_term", "evaluation")


@dataclass(frozen=True)
class Stage:
    """One step of a run: what to do, and which stages must come first."""

    spec: Mapping[str, Any]
    title: str = field(compare=False)

    @property
    def digest(self) -> str:
        return digest_of(self.spec)

    @property
    def kind(self) -> str:
        return self.spec["kind"]

    @property
    def parents(self) -> Mapping[str, str]:
        """Role -> digest of a stage that must be finished before."""
        return self.spec["parents"]

    @property
    def manifest(self) -> StageManifest:
        return StageManifest(self.spec, self.title)


@dataclass(frozen=True)
class Inputs:
    """What all stages of a run have in common."""

    settings: Settings
    num_actions: int
    seed: int
    fewer_actions: Mapping[str, int] = field(default_factory=dict)  # task -> its actions, if it has fewer


@dataclass(frozen=True)
class Load:
    """The work of a stage, in units that each take about the same time."""

    training_steps: int = 0  # agent steps (or batches of items) with the updates that are due
    collected_steps: int = 0  # agent steps without updates
    generator_steps: int = 0
    fisher_batches: int = 0
    episodes: int = 0  # of evaluations

    def __add__(self, other: Load) -> Load:
        return Load(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def agent_steps(self) -> int:
        return self.training_steps + self.collected_steps


class StageKind(ABC):
    """One kind of stage. Subclasses have a method `stage` with the inputs that this kind needs."""

    name: ClassVar[str]  # also a key of the stage's random streams: renaming it would change every result
    groups: ClassVar[tuple[str, ...]]  # of settings that the stage depends on
    has_networks: ClassVar[bool] = True  # and so depends on the number of actions

    @abstractmethod
    def run(self, run: StageRun) -> Result:
        """Does the work of a stage."""

    @abstractmethod
    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        """How much work a stage is, from its spec alone."""

    def build(
        self,
        title: str,
        inputs: Inputs,
        parents: Mapping[str, Stage | None],
        methods: Iterable[str] = (),
        **more: Any,
    ) -> Stage:
        """A stage of this kind that depends on `methods` and on `more` inputs; a parent that is None is left out."""
        spec = {
            "format": SPEC_FORMAT,
            "kind": self.name,
            "settings": self.settings_for(inputs.settings, methods, more.get("tasks", [more.get("task")])),
            "parents": {role: parent.digest for role, parent in parents.items() if parent},
            "seed": inputs.seed,
            **(_actions(inputs, more) if self.has_networks else {}),
            **more,
        }
        return Stage(spec, f"{title} (seed {inputs.seed})")

    def settings_for(
        self, settings: Settings, methods: Iterable[str] = (), tasks: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The settings a stage depends on, as they are in its spec."""
        document = to_json(settings)
        chosen = {name: values for name, values in document.items() if name in self.groups}
        used = {name: values for name, values in document.get("methods", {}).items() if name in set(methods)}
        scales = {name: scale for name, scale in document.get("scales", {}).items() if name in set(tasks)}
        more = {"methods": used, "scales": scales if "observation" in self.groups else {}}
        return {**chosen, **{name: values for name, values in more.items() if values}}


def _actions(inputs: Inputs, more: Mapping[str, Any]) -> dict[str, Any]:
    """How many outputs a network has, and which tasks of the stage use fewer of them."""
    tasks = more["tasks"] if "tasks" in more else [more["task"]]
    fewer = {name: number for name, number in inputs.fewer_actions.items() if name in tasks}
    return {"num_actions": inputs.num_actions, **({"fewer_actions": fewer} if fewer else {})}


def training_load(settings: Settings, agent_steps: int, num_tasks: int) -> Load:
    """Training, with an evaluation of `num_tasks` tasks at every interval."""
    evaluations = math.ceil(agent_steps / settings.evaluation.interval)
    return Load(training_steps=agent_steps, episodes=evaluations * num_tasks * settings.evaluation.episodes)


def collected_steps(settings: Settings) -> int:
    """Agent steps that collecting a replay takes (learning/short_term.py)."""
    return min(settings.training.replay_capacity, settings.short_term.agent_steps)
