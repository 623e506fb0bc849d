"""Continuing from a long-term memory made elsewhere: a pack, a pretrained agent or another output folder.

In the store where it learns further tasks, such a memory is a stage without parents, named by its contents and not by
where it came from. The tasks it knows come before the new ones in the sequence, and every agent is evaluated on all of
them. How the known tasks were learnt is not recorded here, so reports leave it out.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reaper.config.settings import Settings
from reaper.config.sparse_json import to_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.learning.found_memory import check_memory
from reaper.memory.long_term import LongTermMemory
from reaper.storage.exported_memory import INITIAL_MEMORY
from reaper.storage.files import canonical
from reaper.storage.find import FoundMemory, RunChoice, find_memory
from reaper.storage.manifests import SPEC_FORMAT, Provenance
from reaper.storage.records import ContinuedFrom
from reaper.storage.store import Store
from reaper.study.conditions import Condition
from reaper.study.kinds.base import Stage
from reaper.tasks.observation import BOARD, VECTOR, state_spec
from reaper.tasks.sequence import Sequence, find_task
from reaper.version import VERSION
from reaper.zoo import locate


def contents_of(memory: LongTermMemory) -> str:
    """A digest of every weight and name in a memory."""
    digest = hashlib.sha256(canonical(list(memory.tasks)).encode())
    for part, tensors in (("agent", memory.agent), ("retained", memory.retained)):
        for name, tensor in sorted(tensors.items()):
            digest.update(canonical([part, name, str(tensor.dtype), list(tensor.shape)]).encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class InitialMemory:
    """A memory from elsewhere, checked and ready to learn further tasks."""

    source: str  # as the user named it
    found: FoundMemory
    settings: Settings  # that it was made with
    num_actions: int
    contents: str  # a digest of its weights and tasks

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.found.memory.tasks

    @property
    def stage(self) -> Stage:
        spec = {"format": SPEC_FORMAT, "kind": INITIAL_MEMORY, "parents": {}, "tasks": list(self.tasks)}
        spec |= {
            "settings": to_json(self.settings),
            "num_actions": self.num_actions,
            "axes": self.found.spec.get("axes"),
        }
        return Stage({**spec, "contents": self.contents}, f"long-term memory from {self.source}")

    def memories(self) -> list[Stage]:
        """One stage per task: this memory for the last task, and for the others stages that are in no store."""
        before = [
            Stage({"kind": "unknown", "parents": {}, "contents": self.contents, "task": task}, f"before {self.source}")
            for task in self.tasks[:-1]
        ]
        return [*before, self.stage]

    def extend(self, sequence: Sequence) -> Sequence:
        """The known tasks, followed by the new ones."""
        known = tuple(find_task(name) for name in self.tasks)
        name = f"{sequence.name} after {self.found.sequence} ({self.contents[:6]})"
        return Sequence(name, (*known, *sequence.tasks), self.num_actions)

    def adapt(self, settings: Settings, sequence: Sequence, user_values: Mapping[str, Any]) -> Settings:
        """The settings, with what the memory's network has learnt to see and to answer."""
        return self._with_targets(self._with_observation(settings, sequence), user_values)

    def _with_observation(self, settings: Settings, sequence: Sequence) -> Settings:
        """With the identities of the memory's tasks, the length of vectors and the scales of the known tasks, or the
        size of boards."""
        theirs, observation = self.settings.observation, settings.observation
        if observation.task_id == theirs.task_id:
            observation = replace(observation, task_names=observation.task_names or theirs.task_names)
        if sequence.kind == BOARD and not observation.channels:
            observation = replace(observation, channels=theirs.channels, frame_size=theirs.frame_size)
        if sequence.kind != VECTOR:
            return replace(settings, observation=observation)
        observation = replace(observation, features=observation.features or theirs.features)
        return replace(settings, observation=observation, scales={**settings.scales, **self.settings.scales})

    def _with_targets(self, settings: Settings, user_values: Mapping[str, Any]) -> Settings:
        """With the memory's targets: one network cannot answer with values in one task and advantages in another."""
        theirs, ours = self.settings.long_term, settings.long_term
        if "long-term.targets" in user_values and ours.targets != theirs.targets:
            raise UserError(
                f"{self.source} was taught {theirs.targets}: --long-term.targets {ours.targets} does not go with it"
            )
        return replace(settings, long_term=replace(ours, targets=theirs.targets))

    def notices(self, settings: Settings) -> list[str]:
        """What changes because of the memory that a user may not expect."""
        theirs = self.settings.long_term.targets
        same = theirs == settings.long_term.targets
        return [] if same else [f"{self.source} was taught {theirs}, and so are further tasks (--long-term.targets)"]

    def check(self, condition: Condition, settings: Settings, sequence: Sequence) -> None:
        """Refuses a condition, settings or tasks that the memory cannot continue with."""
        self._check_condition(condition)
        self._check_agent(condition, settings, sequence)
        for task in sequence.tasks:
            if task.name in self.tasks:
                raise UserError(f"{self.source} already knows the task {task.name}; leave it out of --tasks")
            if task.num_actions > self.num_actions:
                raise UserError(f"{task.name} has {task.num_actions} actions, and {self.source} {self.num_actions}")
        context = Context(settings, self.num_actions, seed=0, names=(INITIAL_MEMORY,))
        retention = condition.make_retention(settings)
        if missing := retention.missing_from(context, self.found.memory):
            what = missing.removeprefix("a ")
            raise UserError(f"{condition.name} cannot continue from {self.source}: that holds no {what}")
        if conflict := retention.conflict_with(condition.make_retention(self.settings)):
            raise UserError(f"{condition.name} cannot continue from {self.source}: that holds {conflict}")

    def _check_condition(self, condition: Condition) -> None:
        if condition.reverse:
            raise UserError(f"{condition.name} learns its tasks in reverse, so it cannot continue from {self.source}")
        if not condition.make_objective().consolidates:
            raise UserError(f"{condition.name} has no long-term memory, so it cannot continue from {self.source}")

    def _check_agent(self, condition: Condition, settings: Settings, sequence: Sequence) -> None:
        theirs = state_spec(self.settings.observation)
        for task in sequence.tasks:
            if task.observation and task.observation.kind == theirs.kind == VECTOR:
                size, room = task.observation.size, theirs.frame.without_identity.size
                if size > room:
                    raise UserError(f"{task.name} has {size} numbers per observation, and {self.source} {room}")
        ours = sequence.observation(settings.observation)
        if theirs != ours:
            raise UserError(f"{self.source} observes {theirs}, and these tasks and settings have {ours}")
        if self.settings.network.width != settings.network.width:
            widths = f"{self.settings.network.width}, and {condition.name} one of {settings.network.width}"
            raise UserError(f"{self.source} has a network of width {widths}")
        axes = self.found.spec.get("axes")
        knowledge = axes.get("knowledge") if isinstance(axes, dict) else None
        if knowledge != condition.knowledge:
            raise UserError(f"{self.source} keeps {str(knowledge)[:40]}, and {condition.name} {condition.knowledge}")

    def write(self, store: Store) -> None:
        """Writes the memory to the store if it is not there yet."""
        if store.has(self.stage.digest):
            return
        memory = self.found.memory
        tensors = {name: part for name, part in (("agent", memory.agent), ("retained", memory.retained)) if part}
        documents = {"memory": {"tasks": list(memory.tasks), "bytes": memory.bytes}, "rows": []}
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        store.write_stage(self.stage.manifest, tensors, documents, Provenance(finished=finished, version=VERSION))

    def record(self) -> ContinuedFrom:
        """Its entry in the record of a run."""
        return ContinuedFrom(self.source, self.contents, len(self.tasks))


def open_initial_memory(source: str | Path, condition: str | None = None, seed: int | None = None) -> InitialMemory:
    """Opens a memory to continue from; `condition` and `seed` choose one of the runs in an output folder."""
    found = find_memory(locate(source), RunChoice(condition, seed))
    made_for = check_memory(found)
    tasks = found.memory.tasks
    for name in tasks:
        if ":" in name:  # Gymnasium would import the module before the colon
            raise UserError(f"{source} names a task {name[:60]!r} that would import a module; it is not opened")
    if len(set(tasks)) < len(tasks):
        raise UserError(f"{source} names a task twice")
    return InitialMemory(
        str(source), found, made_for.settings, made_for.num_actions, contents=contents_of(found.memory)
    )
