"""Going on from a long-term memory that was made elsewhere: a pack, a pretrained agent or another output folder.

In the store that teaches it further tasks, such a memory is a stage without parents, named by what is in it and not by
where it came from. The tasks it knows stand before the new ones in the sequence, and every agent is tested on all of
them; how they were learnt is not known here, so nothing is said about it.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json, to_json
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
    """A memory from elsewhere, checked and ready to learn on from."""

    source: str  # as it was given
    found: FoundMemory
    contents: str

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.found.memory.tasks

    @property
    def stage(self) -> Stage:
        spec = {key: self.found.spec.get(key) for key in ("settings", "num_actions", "axes")}
        spec |= {"format": SPEC_FORMAT, "kind": INITIAL_MEMORY, "parents": {}, "tasks": list(self.tasks)}
        return Stage({**spec, "contents": self.contents}, f"long-term memory from {self.source}")

    def memories(self) -> list[Stage]:
        """One a task: this memory for the last, and for those before it stages that are in no store."""
        before = [
            Stage({"kind": "unknown", "parents": {}, "contents": self.contents, "task": task}, f"before {self.source}")
            for task in self.tasks[:-1]
        ]
        return [*before, self.stage]

    def before(self, sequence: Sequence) -> Sequence:
        """The known tasks and then the new ones."""
        known = tuple(find_task(name) for name in self.tasks)
        name = f"{sequence.name} after {self.found.sequence} ({self.contents[:6]})"
        return Sequence(name, (*known, *sequence.tasks), self.found.spec["num_actions"])

    def check(self, condition: Condition, settings: Settings, sequence: Sequence) -> None:
        """Refuses what cannot be gone on with."""
        source, axes = self.source, self.found.spec.get("axes")
        if not condition.teaches.consolidates or condition.reverse:
            why = "learns its tasks in reverse" if condition.reverse else "has no long-term memory"
            raise UserError(f"{condition.name} {why}, so it cannot go on from {source}")
        theirs = from_json(self.found.spec["settings"])
        if theirs.observation != settings.observation:
            seen = [
                f"{frames.frame_stack} frames of {frames.frame_size} pixels"
                for frames in (theirs.observation, settings.observation)
            ]
            raise UserError(f"{source} sees {seen[0]} a side, and these tasks and settings have {seen[1]}")
        if theirs.network.width != settings.network.width:
            widths = f"{theirs.network.width}, and {condition.name} one of {settings.network.width}"
            raise UserError(f"{source} has a network of width {widths}")
        knowledge = axes.get("knowledge") if isinstance(axes, dict) else None
        if knowledge != condition.knowledge:
            raise UserError(f"{source} keeps {str(knowledge)[:40]}, and {condition.name} {condition.knowledge}")
        actions = self.found.spec["num_actions"]
        for task in sequence.tasks:
            if task.name in self.tasks:
                raise UserError(f"{task.name} is a task that {source} knows already; leave it out of --tasks")
            if task.num_actions > actions:
                raise UserError(f"{task.name} has {task.num_actions} actions, and {source} was made for {actions}")
        context = Context(settings, actions, 0, (INITIAL_MEMORY,))
        if lacking := condition.configured_retention(settings).missing_from(context, self.found.memory):
            raise UserError(f"{condition.name} cannot go on from {source}: that holds no {lacking.removeprefix('a ')}")

    def write(self, store: Store) -> None:
        """Puts the memory into the store, where it is not there yet."""
        if store.has(self.stage.digest):
            return
        memory = self.found.memory
        tensors = {name: part for name, part in (("agent", memory.agent), ("retained", memory.retained)) if part}
        documents = {"memory": {"tasks": list(memory.tasks), "bytes": memory.bytes}, "rows": []}
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        store.write_stage(self.stage.manifest, tensors, documents, Provenance(finished=finished, version=VERSION))

    def record(self) -> ContinuedFrom:
        """As it stands in the record of a run."""
        return ContinuedFrom(self.source, self.contents, len(self.tasks))


def open_initial_memory(source: str | Path, condition: str | None = None, seed: int | None = None) -> InitialMemory:
    """Opens a memory to go on from; where it is an output folder with several runs, `condition` and `seed` choose."""
    found = find_memory(locate(source), RunChoice(condition, seed))
    memory = found.memory
    check_memory(found)  # refuses weights that do not fit their settings
    for name in memory.tasks:
        if ":" in name:  # Gymnasium would import the module before it
            raise UserError(f"{source} names a task {name[:60]!r} that would run code of its own; it is not opened")
    if len(set(memory.tasks)) < len(memory.tasks):
        raise UserError(f"{source} names a task twice")
    found = replace(found, spec={**found.spec, "settings": to_json(from_json(found.spec["settings"]))})
    return InitialMemory(str(source), found, contents_of(memory))
