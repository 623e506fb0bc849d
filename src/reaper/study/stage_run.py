"""A stage being run: what it is given, and what it hands to the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from reaper.compute.compilation import worth_compiling
from reaper.config.presets import as_dict, from_dict
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.learning.evaluation.evaluator import worth_a_process
from reaper.learning.short_term import Teacher
from reaper.progress import Progress
from reaper.storage.checkpoints import Checkpointer, Interval
from reaper.storage.store import Artefact, Store


@dataclass
class Result:
    """What a stage hands to the store."""

    tensors: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageResources:
    """What a stage is run with; none of it changes its result."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint_interval: Interval = field(default_factory=Interval)
    emulator_threads: int | None = None  # per Atari task; None: as many as suit the machine
    concurrent_eval: bool = True  # whether evaluations may run in a separate process, where that pays


@dataclass(frozen=True)
class Work:
    """Where a stage's parents lie, what it runs on, whom it tells and who saves its state."""

    spec: Mapping[str, Any]
    store: Store
    resources: StageResources
    progress: Progress
    checkpointer: Checkpointer

    def context(self, *names: str) -> Context:
        settings = settings_of(self.spec)
        names = (self.spec["kind"], *names)
        return Context(
            settings,
            self.spec["num_actions"],
            self.spec["seed"],
            names,
            self.device,
            self.progress,
            self.checkpointer,
            compiles=worth_compiling(settings, self.device),
            concurrent_eval=self.resources.concurrent_eval and worth_a_process(settings, self.device),
            emulator_threads=self.resources.emulator_threads,
        )

    @property
    def device(self) -> torch.device:
        return self.resources.device

    def parents(self) -> dict[str, Artefact]:
        return {role: self.store.stage(digest) for role, digest in self.spec["parents"].items()}


def settings_of(spec: Mapping[str, Any]) -> Settings:
    """The settings a stage depends on; the rest are the paper's, and make no difference to it."""
    return from_dict({**as_dict(Settings()), **spec["settings"]})


def read_teacher(artefact: Artefact) -> Teacher:
    values = artefact.document("values")
    return Teacher(artefact.tensors("agent"), values["mean"], values["deviation"])
