"""The records of a store: its header, its runs and its experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from reaper.storage.parsing import (
    Record,
    SparseSettings,
    digest,
    integer,
    many,
    mapping,
    number,
    require,
    settings_in,
    text,
)

STORE_FORMAT = 3  # of all records of a store and of the layout of its folders
ROLES = ("teachers", "generators", "memories", "evaluations", "singles")  # of a run's stages: one per task each


@dataclass(frozen=True)
class StoreHeader(Record):
    """OUT/reaper.json: what all runs of a store have in common."""

    version: str  # of reaper, when the store was created
    preset: str
    fraction: float
    settings: SparseSettings
    user_values: Mapping[str, Any] | None = None  # settings that the user gave; None: not known, before version 0.3
    what: ClassVar[str] = "the header of a store"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> StoreHeader:
        return cls(
            text(value["version"]),
            text(value["preset"]),
            number(value["fraction"]),
            settings_in(value["settings"]),
            mapping(value["user_values"]) if "user_values" in value else None,
        )

    def to_json(self) -> dict[str, Any]:
        written = {"format": STORE_FORMAT, **asdict(self)}
        return {name: part for name, part in written.items() if part is not None}


# -- runs and experiments


@dataclass(frozen=True)
class StageEntry(Record):
    """One stage of a run: enough to explain how to recreate it, even when its own files are lost."""

    title: str
    parents: tuple[str, ...]  # digests
    what: ClassVar[str] = "the entry of a stage"

    @classmethod
    def of(cls, title: str, parents: Mapping[str, str]) -> StageEntry:
        """From a stage's parents by role; their order does not depend on where the stage was read from."""
        return cls(title, tuple(digest for _, digest in sorted(parents.items())))

    @classmethod
    def parse(cls, value: dict[str, Any]) -> StageEntry:
        return cls(text(value["title"]), many(digest, value["parents"]))


@dataclass(frozen=True)
class ContinuedFrom(Record):
    """The long-term memory, trained elsewhere, that a run continues from."""

    source: str  # as the user named it
    contents: str  # a digest of its weights
    tasks: int  # how many tasks it knows; how they were learnt is unknown
    what: ClassVar[str] = "the source of a run"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> ContinuedFrom:
        return cls(text(value["source"]), text(value["contents"]), integer(value["tasks"]))


@dataclass(frozen=True)
class TeacherSource(Record):
    """The agent, trained elsewhere, that teaches a task."""

    source: str  # as the user named it
    outputs: str  # values, or logits
    stage: str  # the digest of the stage that holds its weights
    what: ClassVar[str] = "the source of a teacher"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> TeacherSource:
        return cls(text(value["source"]), text(value["outputs"]), digest(value["stage"]))


@dataclass(frozen=True)
class RunRecord(Record):
    """OUT/runs/NAME.json: which stages make up one condition's run with one seed."""

    name: str
    condition: Mapping[str, Any]  # its axes (study/conditions.py)
    sequence: str
    tasks: tuple[str, ...]
    titles: tuple[str, ...]
    num_actions: int
    seed: int
    command: str
    settings: SparseSettings
    teachers: tuple[str, ...]
    generators: tuple[str, ...]
    memories: tuple[str, ...]
    evaluations: tuple[str, ...]
    singles: tuple[str, ...]
    random: str | None
    stages: Mapping[str, StageEntry]  # by digest; parents first
    continued: ContinuedFrom | None = None
    sources: Mapping[str, TeacherSource] = field(default_factory=dict)  # task -> its teacher, if trained elsewhere
    policy: str | None = None  # the source of a policy that was only evaluated; `evaluations` then has one per task
    what: ClassVar[str] = "the record of a run"

    @property
    def condition_name(self) -> str:
        return self.condition["name"]

    @property
    def known_tasks(self) -> int:
        """How many tasks the memory knew that the run continues from."""
        return self.continued.tasks if self.continued else 0

    @property
    def first_is_distilled(self) -> bool:
        """Whether the first long-term agent learnt from a teacher with another network; otherwise it is its copy."""
        residual = self.settings.get("short_term", {}).get("network") == "residual"
        return not self.known_tasks and (residual or self.tasks[0] in self.sources)

    @property
    def distilled(self) -> str | None:
        """The stage, shared by all conditions, in which the first long-term agent learnt from such a teacher; None
        where the stage of its memory did that, or nothing was to learn."""
        entry = self.stages.get(self.memories[0]) if self.first_is_distilled and self.memories else None
        others = {*self.teachers[:1], *self.generators}
        return next((digest for digest in entry.parents if digest not in others), None) if entry else None

    def of_role(self, role: str) -> tuple[str, ...]:
        """The digests of one of ROLES, one per task."""
        return getattr(self, role)

    @classmethod
    def parse(cls, value: dict[str, Any]) -> RunRecord:
        entries = mapping(value["stages"]).items()
        record = cls(
            name=text(value["name"]),
            condition=mapping(value["condition"]),
            sequence=text(value["sequence"]),
            tasks=many(text, value["tasks"]),
            titles=many(text, value["titles"]),
            num_actions=integer(value["num_actions"]),
            seed=integer(value["seed"]),
            command=text(value["command"]),
            settings=settings_in(value["settings"]),
            **{role: many(digest, value[role]) for role in ROLES},
            random=None if value["random"] is None else digest(value["random"]),
            stages={digest(name): StageEntry.parse(mapping(entry)) for name, entry in entries},
            continued=ContinuedFrom.parse(mapping(value["continued"])) if "continued" in value else None,
            policy=text(value["policy"]) if "policy" in value else None,
            sources={
                text(task): TeacherSource.parse(mapping(entry))
                for task, entry in mapping(value.get("sources", {})).items()
            },
        )
        count = len(record.tasks)
        require(record.policy is None or len(record.evaluations) == count, "a task lacks its evaluation")
        require(record.name.startswith(text(record.condition["name"]) + "--"), "the name is another condition's")
        require(count == len(record.titles) > 0, "tasks and titles differ in number")
        require(all(len(record.of_role(role)) in (0, count) for role in ROLES), "a task lacks a stage")
        require(0 <= record.known_tasks < count, "there is nothing left to learn")
        return record

    def to_json(self) -> dict[str, Any]:
        written = {"format": STORE_FORMAT, **asdict(self)}
        optional = {"continued": self.continued, "sources": self.sources, "policy": self.policy}
        return {name: part for name, part in written.items() if optional.get(name, True)}


@dataclass(frozen=True)
class AnalysisStageEntry(Record):
    """A stage that an experiment adds to those of its runs."""

    digest: str
    title: str
    parents: tuple[str, ...]  # digests
    role: str  # what it is to the analysis
    about: Mapping[str, Any]
    what: ClassVar[str] = "the entry of a stage"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> AnalysisStageEntry:
        parents = many(digest, value["parents"])
        return cls(digest(value["digest"]), text(value["title"]), parents, text(value["role"]), mapping(value["about"]))


@dataclass(frozen=True)
class ExperimentRecord(Record):
    """OUT/experiments/NAME.json: the runs and further stages of one of the paper's experiments with one seed."""

    name: str
    experiment: str
    sequence: str
    tasks: tuple[str, ...]
    titles: tuple[str, ...]
    seed: int
    command: str
    runs: tuple[str, ...]  # names
    stages: tuple[AnalysisStageEntry, ...]
    what: ClassVar[str] = "the record of an experiment"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> ExperimentRecord:
        record = cls(
            name=text(value["name"]),
            experiment=text(value["experiment"]),
            sequence=text(value["sequence"]),
            tasks=many(text, value["tasks"]),
            titles=many(text, value["titles"]),
            seed=integer(value["seed"]),
            command=text(value["command"]),
            runs=many(text, value["runs"]),
            stages=many(lambda entry: AnalysisStageEntry.parse(mapping(entry)), value["stages"]),
        )
        require(record.name.startswith(record.experiment + "--"), "the name is another experiment's")
        require(len(record.tasks) == len(record.titles) > 0, "tasks and titles differ in number")
        return record

    def to_json(self) -> dict[str, Any]:
        return {"format": STORE_FORMAT, **asdict(self)}
