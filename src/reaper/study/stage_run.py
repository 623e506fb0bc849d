"""A stage being run: what it is given, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json
from reaper.context import Context, compile_options
from reaper.learning.evaluation.evaluator import worth_concurrent_eval
from reaper.learning.teachers import Teacher, load_external, load_teacher
from reaper.progress import Progress
from reaper.storage.checkpoints import Checkpointer, Interval
from reaper.storage.store import Artefact, Store

# Kinds of the stages of an agent from elsewhere: a copy of its weights, and the teacher that it makes.
TEACHER_WEIGHTS, EXTERNAL_TEACHER = "teacher weights", "external teacher"


@dataclass
class Result:
    """What a stage writes to the store."""

    tensors: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageResources:
    """What a stage is run with; none of it changes its result."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint_interval: Interval = field(default_factory=Interval)
    emulator_threads: int | None = None  # per Atari task; None: as many as suit the machine
    env_workers: int | None = None  # processes per other Gymnasium task; 0: none but the stage's own; None: measured
    concurrent_eval: bool = True  # whether evaluations may run in a separate process, where that pays


@dataclass(frozen=True)
class StageRun:
    """A stage's spec, the store that holds its parents, its resources, and where it reports and saves its progress."""

    spec: Mapping[str, Any]
    store: Store
    resources: StageResources
    progress: Progress
    checkpointer: Checkpointer

    def context(self, *names: str) -> Context:
        """What learning is given; the stage's kind and `names` set its random streams apart from those of others."""
        settings = settings_of(self.spec)
        return Context(
            settings=settings,
            num_actions=self.spec["num_actions"],
            seed=self.spec["seed"],
            names=(self.spec["kind"], *names),
            device=self.device,
            progress=self.progress,
            checkpointer=self.checkpointer,
            concurrent_eval=self.resources.concurrent_eval and worth_concurrent_eval(settings, self.device),
            emulator_threads=self.resources.emulator_threads,
            env_workers=self.resources.env_workers,
            **compile_options(settings, self.device),
        )

    @property
    def device(self) -> torch.device:
        return self.resources.device

    def parents(self) -> dict[str, Artefact]:
        """Role -> the finished parent."""
        return {role: self.store.stage(digest) for role, digest in self.spec["parents"].items()}


def numbered(parents: Mapping[str, Artefact], role: str) -> list[Artefact]:
    """The parents `role 1`, `role 2`, ... in this order; that of the keys in a file may be another."""
    count = sum(name.startswith(f"{role} ") for name in parents)
    return [parents[f"{role} {i + 1}"] for i in range(count)]


def settings_of(spec: Mapping[str, Any]) -> Settings:
    """The settings a stage depends on; all others have their defaults, and make no difference to it."""
    return from_json(spec["settings"])


def read_teacher(context: Context, artefact: Artefact) -> Teacher:
    """The teacher that a stage resulted in.

    What a teacher from elsewhere is (the name of a function, say) is read from the stage's spec, which is part of its
    digest and so of what the user asked for; a document of a file from elsewhere could name anything.
    """
    trusted = {"task": artefact.spec.get("task"), "network": artefact.spec.get("network")}
    return load_teacher(context, artefact.tensors("agent"), {**artefact.document("values"), **trusted})


def read_policy(context: Context, artefact: Artefact, task: str) -> torch.nn.Module:
    """The network of any agent that a stage resulted in (a teacher, a long-term agent, or the weights of an agent from
    elsewhere), as it acts in a task."""
    if artefact.manifest.kind in (EXTERNAL_TEACHER, TEACHER_WEIGHTS):
        trusted = {"task": task, "network": artefact.spec["network"]}
        return load_external(context, artefact.tensors("agent"), trusted).policy
    return context.q_network(artefact.tensors("agent"))
