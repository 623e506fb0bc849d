"""Manifests: what a folder of results holds, with the checksum of every file; and provenance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

from reaper.storage.files import digest_of
from reaper.storage.parsing import Record, digest, integer, many, mapping, number, require, text

MANIFEST_FORMAT = 3  # of a finished stage
SPEC_FORMAT = 3  # part of every stage's digest: raised only when an equal spec would lead to another result
CHECKPOINT_FORMAT = 2
MEMORY_FORMAT = 2
EXPORTED_MEMORY = "long-term memory"  # the kind of an exported memory

FILE_NAME = re.compile(r"[a-z_]+\.(json|safetensors)")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class FileEntry(Record):
    """One file in a manifest or in the index of a pack."""

    bytes: int
    sha256: str
    what: ClassVar[str] = "the entry of a file"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> FileEntry:
        require(value.keys() == {"bytes", "sha256"}, "a file has a size and a checksum")
        entry = cls(integer(value["bytes"]), text(value["sha256"]))
        require(entry.bytes >= 0 and bool(SHA256.fullmatch(entry.sha256)), "no file has such a size or checksum")
        return entry


Files = dict[str, FileEntry]


def files_in(value: Any) -> Files:
    found = mapping(value)
    require(all(FILE_NAME.fullmatch(name) for name in found), "no version writes files of such names")
    return {name: FileEntry.parse(mapping(entry)) for name, entry in found.items()}


@dataclass(frozen=True)
class FileList(Record):
    """The files of a manifest."""

    files: Files
    left_out: Files = field(default_factory=dict)  # not packed with the rest (pack.py)
    what: ClassVar[str] = "a list of files that any version writes"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> FileList:
        return cls(files_in(value["files"]), files_in(value.get("left_out", {})))


@dataclass(frozen=True)
class StageManifest(Record):
    """What a finished stage is: the spec that it was computed from, and its title."""

    spec: Mapping[str, Any]
    title: str
    what: ClassVar[str] = "the manifest of a finished stage"

    @property
    def digest(self) -> str:
        return digest_of(self.spec)

    @property
    def kind(self) -> str:
        return self.spec["kind"]

    @property
    def parents(self) -> Mapping[str, str]:
        """Role -> digest of a stage that this one was computed from."""
        return self.spec["parents"]

    @classmethod
    def parse(cls, value: dict[str, Any]) -> StageManifest:
        spec = mapping(value["spec"])
        text(spec["kind"])
        many(digest, list(mapping(spec["parents"]).values()))
        manifest = cls(spec, text(value["title"]))
        require(value["digest"] == manifest.digest, "the digest is another stage's")
        return manifest

    def to_json(self) -> dict[str, Any]:
        return {"format": MANIFEST_FORMAT, "digest": self.digest, "title": self.title, "spec": self.spec}


@dataclass(frozen=True)
class CheckpointManifest(Record):
    """Which stage a checkpoint belongs to; checkpoints of a stage are numbered from one."""

    digest: str
    number: int
    what: ClassVar[str] = "the manifest of a checkpoint"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> CheckpointManifest:
        return cls(digest(value["digest"]), integer(value["number"]))

    def to_json(self) -> dict[str, Any]:
        return {"format": CHECKPOINT_FORMAT, **asdict(self)}


@dataclass(frozen=True)
class MemoryManifest(Record):
    """A long-term memory that was exported from its run."""

    spec: Mapping[str, Any]  # of the stage that computed it
    title: str
    precision: str  # full or half
    stage: str  # its digest
    condition: Mapping[str, Any]
    sequence: str
    titles: tuple[str, ...]
    what: ClassVar[str] = "the manifest of an exported long-term memory"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> MemoryManifest:
        require(value["kind"] == EXPORTED_MEMORY, "it is something else")
        return cls(
            spec=mapping(value["spec"]),
            title=text(value["title"]),
            precision=text(value["precision"]),
            stage=digest(value["stage"]),
            condition=mapping(value["condition"]),
            sequence=text(value["sequence"]),
            titles=many(text, value["titles"]),
        )

    def to_json(self) -> dict[str, Any]:
        return {"format": MEMORY_FORMAT, "kind": EXPORTED_MEMORY, **asdict(self)}


@dataclass(frozen=True)
class Provenance(Record):
    """provenance.json: when, where and how long a stage ran; the only file that differs between two equal runs."""

    seconds: float = 0.0
    finished: str = ""
    device: str = ""
    processor: str = ""
    version: str = ""
    torch: str = ""
    threads: int = 0
    checkpoints: Mapping[str, Any] = field(default_factory=dict)  # what writing them cost
    digest: str = ""  # of the stage, so that the file cannot be mistaken for another stage's
    what: ClassVar[str] = "the provenance of a stage"

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Provenance:
        checks = {"seconds": number, "threads": integer, "checkpoints": mapping}
        known = [f.name for f in fields(cls) if f.name in value]
        return cls(**{name: checks.get(name, text)(value[name]) for name in known})

    def of_stage(self, digest: str) -> Provenance:
        return replace(self, digest=digest)

    def to_json(self) -> dict[str, Any]:
        """What is known; a checkpoint's provenance is empty."""
        return {name: value for name, value in asdict(self).items() if value}
