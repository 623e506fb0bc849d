"""What a slice of a campaign runs: stages in order of importance, and what each takes in seconds and in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reaper.config.presets import as_dict, from_dict
from reaper.config.settings import Settings
from reaper.networks.families import q_network_bytes
from reaper.retention import RETENTIONS, PseudoRehearsal
from reaper.retention.rehearsal import item_bytes
from reaper.storage.files import canonical
from reaper.storage.store import Store
from reaper.study.chains import Chain
from reaper.study.stages import Stage
from reaper.tasks.observation import state_spec

LOST = 1.2  # times longer than it had, a stage that was not finished is thought to take
DOCUMENTS = 64 << 10  # bytes, generously: manifest, rows, curves
REAL_PICTURES, DREAMT_PICTURES = 64, 96  # states that a stage keeps for the report
# What a stage reads of each of its parents, beside documents.
NEEDED = {
    "memory": {"agent.safetensors", "retained.safetensors"},
    "teacher": {"agent.safetensors"},
    "generator": {"generator.safetensors"},
    "subject": {"agent.safetensors"},
}


def in_order(chains: Sequence[Chain]) -> list[Stage]:
    """Teachers and their tests first, since all conditions need them; then condition by condition, task by task."""
    stages: list[Stage] = []
    for chain in chains:
        for teacher, single in zip(chain.teachers, chain.singles, strict=True):
            stages += [teacher, single]
        stages += [chain.random] if chain.random else []
    for chain in chains:
        for place in range(len(chain.memories)):
            stages += [*chain.generators[place : place + 1], chain.memories[place], chain.evaluations[place]]
    return list({stage.digest: stage for stage in stages}.values())


def usable(store: Store, stage: Stage) -> bool:
    """Whether all its parents are there, with all that it reads of them."""
    return all(
        store.has(parent) and not NEEDED[role] & store.stage(parent).left_out.keys()
        for role, parent in stage.parents.items()
    )


def descendants(stage: Stage, stages: Iterable[Stage]) -> list[Stage]:
    """The stages that come to nothing without this one, itself first; `stages` have parents first."""
    found = {stage.digest: stage}
    for other in stages:
        if found.keys() & set(other.parents.values()):
            found[other.digest] = other
    return list(found.values())


def settings_of(stage: Stage) -> Settings:
    return from_dict({**as_dict(Settings()), **stage.spec["settings"]})


def retention_of(stage: Stage) -> Any:
    return RETENTIONS.build(stage.spec["axes"]["retention"])


def bytes_of(stage: Stage, with_retained: bool = True) -> int:
    """What a stage leaves on the disk, at most; a pack of it is a little smaller."""
    key = (stage.digest, with_retained)
    if key not in _sizes:  # it builds networks, and is asked again and again
        _sizes[key] = _bytes_of(stage, with_retained)
    return _sizes[key]


_sizes: dict[tuple[str, bool], int] = {}


def _bytes_of(stage: Stage, with_retained: bool) -> int:
    settings, actions = settings_of(stage), stage.spec["num_actions"]
    if stage.kind == "evaluate":
        return DOCUMENTS
    generator = PseudoRehearsal().kept_bytes(settings, actions, 1)
    if stage.kind == "short-term generator":
        return DOCUMENTS + generator
    agent = DOCUMENTS + q_network_bytes(state_spec(settings.observation), actions, settings.network)
    if stage.kind == "short-term":
        return agent + REAL_PICTURES * item_bytes(settings)
    retained = retention_of(stage).kept_bytes(settings, actions, len(stage.spec["tasks"])) if with_retained else 0
    return agent + retained + (DREAMT_PICTURES * item_bytes(settings) if retained == generator else 0)


@dataclass
class Pace:
    """How long a stage takes: as long as the slowest one like it, or, before there is one, by the given rates."""

    steps_per_second: float
    gan_steps_per_second: float  # of the GAN
    test_seconds: float  # of one task: some dozen whole games
    start_seconds: float  # until a stage is under way: compiling, recording
    seen: dict[str, list[float]] = field(default_factory=dict)

    def note(self, stage: Stage, seconds: float) -> None:
        self.seen.setdefault(_likeness(stage), []).append(seconds)

    def note_lost(self, stage: Stage, seconds: float) -> None:
        """It was not finished in so many seconds, so it takes longer."""
        self.note(stage, LOST * seconds)

    def seconds(self, stage: Stage) -> float:
        seen = self.seen.get(_likeness(stage))
        if seen:
            return max(seen)
        return self._guess(stage) + (0.0 if stage.kind == "evaluate" else self.start_seconds)

    def _guess(self, stage: Stage) -> float:
        settings, spec = settings_of(stage), stage.spec
        if stage.kind == "evaluate":
            return self.test_seconds * len(spec["tasks"])
        gathered = min(settings.training.replay_capacity, settings.short_term.agent_steps) / self.steps_per_second
        dreams = settings.generator.steps / self.gan_steps_per_second
        if stage.kind == "short-term":
            return self._training(settings.short_term.agent_steps, settings, 1)
        if stage.kind == "short-term generator":
            return gathered + dreams
        dreams = dreams if isinstance(retention_of(stage), PseudoRehearsal) else 0.0
        if "memory" not in stage.parents:
            return 0.0 if "generator" in stage.parents else gathered + dreams
        return self._training(settings.long_term.agent_steps, settings, len(spec["tasks"])) + dreams

    def _training(self, agent_steps: int, settings: Settings, tasks: int) -> float:
        tests = agent_steps // settings.evaluation.interval + 1
        return agent_steps / self.steps_per_second + tests * tasks * self.test_seconds


def _likeness(stage: Stage) -> str:
    """Stages alike in this take about the same time."""
    tests = len(stage.spec["tasks"]) if stage.kind == "evaluate" else 0
    return canonical([stage.kind, stage.spec.get("axes", {}), tests, "memory" in stage.parents])


@dataclass
class Slice:
    """What one slice may still do."""

    stages: Sequence[Stage]  # of the campaign, in order
    store: Store
    pace: Pace
    room: int  # bytes that can come back
    before: frozenset[str]  # digests that are at home already
    margin: float = 1.15
    stays: bool = False  # the folder outlives the slice: what cannot be finished may be begun

    def left(self) -> list[Stage]:
        return [stage for stage in self.stages if not self.store.has(stage.digest)]

    def seconds(self, stage: Stage) -> float:
        """Until something of it can travel: what is too large to travel is of use only to what is made of it here."""
        makes = descendants(stage, self.left()) if bytes_of(stage) > self.room else [stage]
        return self.margin * sum(self.pace.seconds(part) for part in makes)

    def made_bytes(self) -> int:
        made = (stage for stage in self.stages if stage.digest not in self.before and self.store.has(stage.digest))
        return sum(self.travelling_bytes(stage) for stage in made)

    def travelling_bytes(self, stage: Stage) -> int:
        """What is too large leaves without what it retains."""
        return bytes_of(stage, with_retained=bytes_of(stage) <= self.room)

    def choose(self, seconds: float, workers: int = 1) -> list[Stage]:
        """The most important stages that are ready, can be finished in so many seconds and can then be brought back."""
        chosen: list[Stage] = []
        room = self.room - self.made_bytes()
        for stage in self.left():
            size = self.travelling_bytes(stage)
            in_time = self.stays or self.seconds(stage) <= seconds
            if len(chosen) < workers and usable(self.store, stage) and in_time and size <= room:
                chosen.append(stage)
                room -= size
        return chosen


def to_bring_back(stages: Sequence[Stage], store: Store, before: frozenset[str], room: int) -> dict[str, set[str]]:
    """Which new stages leave the slice, and with which files.

    A stage that is too large leaves without what it retains, once nothing is to be made from that any more; until then
    neither it nor anything made from it leaves, since it would have to be made again, with another result. Where there
    is not room for all, the most important leave.
    """
    left = room
    new = {s.digest: s for s in stages if s.digest not in before and store.has(s.digest)}
    while True:
        known = before | new.keys()
        waiting = [s for s in stages if s.digest not in known]
        awaited = {parent for s in waiting for role, parent in s.parents.items() if role == "memory"}
        held = [
            digest
            for digest, stage in new.items()
            if (bytes_of(stage) > room and digest in awaited) or not known.issuperset(stage.parents.values())
        ]
        if not held:
            break
        for digest in held:
            del new[digest]
    leaving: dict[str, set[str]] = {}
    for digest, stage in new.items():  # parents first
        files = store.stage(digest).files
        names = files.keys() - ({"retained.safetensors"} if bytes_of(stage) > room else set())
        size = sum(files[name]["bytes"] for name in names)
        if size <= left and (before | leaving.keys()).issuperset(stage.parents.values()):
            leaving[digest] = names
            left -= size
    return leaving


def to_carry(stages: Sequence[Stage], store: Store, room: int) -> dict[str, set[str]]:
    """What the next slice is given: of every finished stage its documents, and of the parents of what is left, the
    most important first, their weights as far as there is room."""
    done = [stage for stage in stages if store.has(stage.digest)]
    left = [stage for stage in stages if not store.has(stage.digest)]
    kept = {s.digest: {name for name in store.stage(s.digest).files if name.endswith(".json")} for s in done}
    for digest in kept:
        room -= sum(store.stage(digest).files[name]["bytes"] for name in kept[digest])
    for stage in left:
        for role, parent in stage.parents.items():
            if parent in kept:
                artefact = store.stage(parent)
                more = (NEEDED[role] & artefact.files.keys()) - kept[parent]
                size = sum(artefact.files[name]["bytes"] for name in more)
                if size <= room:
                    kept[parent] |= more
                    room -= size
    return kept
