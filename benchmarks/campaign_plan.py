"""Chooses the stages that a slice of a campaign runs: by importance, expected seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json
from reaper.generators import generator_for
from reaper.networks.families import q_network_bytes
from reaper.retention import RETENTIONS
from reaper.retention.rehearsal import item_bytes
from reaper.storage.files import canonical
from reaper.storage.store import Store
from reaper.study.chains import Chain
from reaper.study.kinds.base import Stage
from reaper.tasks.observation import state_spec

TIMED_OUT_FACTOR = 1.2  # a stage that timed out is expected to take this many times the seconds it had
DOCUMENTS = 64 << 10  # bytes of manifest, rows and curves: an upper bound
REAL_STATES, GENERATED_STATES = 64, 96  # states that a stage stores for the report
# The files that a stage reads of each of its parents, besides documents.
NEEDED = {
    "memory": {"agent.safetensors", "retained.safetensors"},
    "teacher": {"agent.safetensors"},
    "generator": {"generator.safetensors"},
    "subject": {"agent.safetensors"},
}
STATES = "states.safetensors"


def needed(stage: Stage, role: str) -> set[str]:
    """The files that a stage reads of its parent in this role."""
    return NEEDED[role] | ({STATES} if stage.kind == "distil" else set())  # it stores its teacher's states as its own


def in_order(chains: Sequence[Chain]) -> list[Stage]:
    """Teachers, their evaluations and the first long-term agent first, since all conditions need them; then by
    condition and task."""
    stages: list[Stage] = []
    for chain in chains:
        for teacher, single in zip(chain.teachers, chain.singles, strict=True):
            stages += [teacher, single]
        stages += [*chain.distilled, *([chain.random] if chain.random else [])]
    for chain in chains:
        for index in range(len(chain.memories)):
            stages += [*chain.generators[index : index + 1], chain.memories[index], chain.evaluations[index]]
    return list({stage.digest: stage for stage in stages}.values())


def usable(store: Store, stage: Stage) -> bool:
    """Whether all its parents are in the store, with the files that it reads."""
    return all(
        store.has(parent) and not needed(stage, role) & store.stage(parent).left_out.keys()
        for role, parent in stage.parents.items()
    )


def descendants(stage: Stage, stages: Iterable[Stage]) -> list[Stage]:
    """This stage and all that depend on it; `stages` are ordered parents first."""
    found = {stage.digest: stage}
    for other in stages:
        if found.keys() & set(other.parents.values()):
            found[other.digest] = other
    return list(found.values())


def settings_of(stage: Stage) -> Settings:
    return from_json(stage.spec["settings"])


def retention_of(stage: Stage) -> Any:
    return RETENTIONS.configure(stage.spec["axes"]["retention"], settings_of(stage))


def num_bytes(stage: Stage, with_retained: bool = True) -> int:
    """An upper bound of a finished stage's size on disk; a pack is a little smaller."""
    key = (stage.digest, with_retained)
    if key not in _sizes:  # it builds networks, and is called again and again
        _sizes[key] = _num_bytes(stage, with_retained)
    return _sizes[key]


_sizes: dict[tuple[str, bool], int] = {}


def _num_bytes(stage: Stage, with_retained: bool) -> int:
    settings, actions = settings_of(stage), stage.spec["num_actions"]
    if stage.kind == "evaluate":
        return DOCUMENTS
    generator = generator_for(settings).num_bytes(state_spec(settings.observation))
    if stage.kind == "short-term generator":
        return DOCUMENTS + generator
    agent = DOCUMENTS + q_network_bytes(state_spec(settings.observation), actions, settings.network)
    if stage.kind in ("short-term", "distil"):
        return agent + REAL_STATES * item_bytes(settings)
    retained = retention_of(stage).num_bytes(settings, actions, len(stage.spec["tasks"])) if with_retained else 0
    return agent + retained + (GENERATED_STATES * item_bytes(settings) if retained == generator else 0)


@dataclass
class StageTimes:
    """Expected seconds of a stage: those of the slowest similar stage, or an estimate from the given rates."""

    steps_per_second: float
    generator_steps_per_second: float
    evaluation_seconds: float  # per task
    start_seconds: float  # before the first step: compilation, CUDA graph capture
    measured: dict[str, list[float]] = field(default_factory=dict)

    def add(self, stage: Stage, seconds: float) -> None:
        self.measured.setdefault(_similarity_key(stage), []).append(seconds)

    def add_timed_out(self, stage: Stage, seconds: float) -> None:
        """The stage was not finished after this many seconds, so it takes longer."""
        self.add(stage, TIMED_OUT_FACTOR * seconds)

    def seconds(self, stage: Stage) -> float:
        measured = self.measured.get(_similarity_key(stage))
        if measured:
            return max(measured)
        return self._estimate(stage) + (0.0 if stage.kind == "evaluate" else self.start_seconds)

    def _estimate(self, stage: Stage) -> float:
        settings, spec = settings_of(stage), stage.spec
        if stage.kind == "evaluate":
            return self.evaluation_seconds * len(spec["tasks"])
        collecting = min(settings.training.replay_capacity, settings.short_term.agent_steps) / self.steps_per_second
        generator = generator_for(settings).steps / self.generator_steps_per_second
        if stage.kind == "short-term":
            return self._training(settings.short_term.agent_steps, settings, 1)
        if stage.kind == "short-term generator":
            return collecting + generator
        if stage.kind == "distil":
            return self._training(settings.long_term.agent_steps, settings, 1)
        generator = generator if retention_of(stage).trains_generator else 0.0
        if "memory" not in stage.parents:
            return 0.0 if "generator" in stage.parents else collecting + generator
        return self._training(settings.long_term.agent_steps, settings, len(spec["tasks"])) + generator

    def _training(self, agent_steps: int, settings: Settings, tasks: int) -> float:
        evaluations = agent_steps // settings.evaluation.interval + 1
        return agent_steps / self.steps_per_second + evaluations * tasks * self.evaluation_seconds


def _similarity_key(stage: Stage) -> str:
    """Equal for stages that take about the same time."""
    tasks = len(stage.spec["tasks"]) if stage.kind == "evaluate" else 0
    return canonical([stage.kind, stage.spec.get("axes", {}), tasks, "memory" in stage.parents])


@dataclass
class Slice:
    """The stages of a campaign, and the limits of one slice."""

    stages: Sequence[Stage]  # in order of importance
    store: Store
    times: StageTimes
    room: int  # bytes that can be brought back
    before: frozenset[str]  # digests of stages that are at home already
    margin: float = 1.15
    persistent: bool = False  # the folder outlives the slice, so stages may be resumed in the next one

    def left(self) -> list[Stage]:
        return [stage for stage in self.stages if not self.store.has(stage.digest)]

    def seconds(self, stage: Stage) -> float:
        """Expected seconds until a result can be brought back: a stage that is too large to transfer is useful only to
        the stages that are made from it in the same slice."""
        needed = descendants(stage, self.left()) if num_bytes(stage) > self.room else [stage]
        return self.margin * sum(self.times.seconds(part) for part in needed)

    def new_bytes(self) -> int:
        new = (stage for stage in self.stages if stage.digest not in self.before and self.store.has(stage.digest))
        return sum(self.transfer_bytes(stage) for stage in new)

    def transfer_bytes(self, stage: Stage) -> int:
        """A stage that is too large is transferred without its retained tensors."""
        return num_bytes(stage, with_retained=num_bytes(stage) <= self.room)

    def choose(self, seconds: float, workers: int = 1) -> list[Stage]:
        """The most important stages that are ready, finish in time and can then be brought back. What stays in a folder
        that outlives the slice may be finished, and brought back, later."""
        chosen: list[Stage] = []
        room = self.room - self.new_bytes()
        for stage in self.left():
            size = self.transfer_bytes(stage)
            fits = self.persistent or (self.seconds(stage) <= seconds and size <= room)
            if len(chosen) < workers and usable(self.store, stage) and fits:
                chosen.append(stage)
                room -= size
        return chosen


def to_bring_back(stages: Sequence[Stage], store: Store, before: frozenset[str], room: int) -> dict[str, set[str]]:
    """Stage -> files to bring back, for the new stages of a slice.

    A stage that is too large is brought back without its retained tensors, once no stage needs them any more. Until
    then neither it nor anything made from it is brought back, since a rerun would give another result. Where there is
    not room for all, the most important stages come first.
    """
    left = room
    new = {s.digest: s for s in stages if s.digest not in before and store.has(s.digest)}
    while True:
        known = before | new.keys()
        waiting = [s for s in stages if s.digest not in known]
        awaited = {parent for s in waiting for role, parent in s.parents.items() if role == "memory"}
        held_back = [
            digest
            for digest, stage in new.items()
            if (num_bytes(stage) > room and digest in awaited) or not known.issuperset(stage.parents.values())
        ]
        if not held_back:
            break
        for digest in held_back:
            del new[digest]
    chosen: dict[str, set[str]] = {}
    for digest, stage in new.items():  # parents first
        files = store.stage(digest).files
        names = files.keys() - ({"retained.safetensors"} if num_bytes(stage) > room else set())
        size = sum(files[name].bytes for name in names)
        if size <= left and (before | chosen.keys()).issuperset(stage.parents.values()):
            chosen[digest] = names
            left -= size
    return chosen


def to_carry(stages: Sequence[Stage], store: Store, room: int) -> dict[str, set[str]]:
    """Stage -> files to carry to the next slice: the documents of every finished stage and, most important first, the
    weights of the parents of unfinished stages, as far as there is room."""
    done = [stage for stage in stages if store.has(stage.digest)]
    left = [stage for stage in stages if not store.has(stage.digest)]
    chosen = {s.digest: {name for name in store.stage(s.digest).files if name.endswith(".json")} for s in done}
    for digest in chosen:
        room -= sum(store.stage(digest).files[name].bytes for name in chosen[digest])
    for stage in left:
        for role, parent in stage.parents.items():
            if parent in chosen:
                artefact = store.stage(parent)
                more = (needed(stage, role) & artefact.files.keys()) - chosen[parent]
                size = sum(artefact.files[name].bytes for name in more)
                if size <= room:
                    chosen[parent] |= more
                    room -= size
    return chosen
