"""An output folder: finished stages, unfinished ones and which of them make up a run.

OUT/reaper.json               format, version and settings: what every stage in here has in common
OUT/stages/DIGEST/            one finished stage
    manifest.json             what it is and the checksum of each file
    *.safetensors, *.json     its results
    made.json                 how long it took, on what: the only file that differs between two equal runs
OUT/unfinished/DIGEST/N/      the newest checkpoints of a stage that is not finished (checkpoints.py)
OUT/runs/NAME.json            which stages make up a condition's run with one seed
OUT/experiments/NAME.json     which runs and further stages make up one of the paper's experiments with one seed
OUT/locks/                    who is at work on what
OUT/live/DIGEST.json          how far a stage is, or why it ended before it was finished (watching/pulses.py)
OUT/tensorboard/              curves for those who look on (watching/recorder.py); no result depends on them
OUT/damaged/                  what `reaper verify --set-aside` moved out of the way
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from reaper.errors import DamagedArtefact, StorageFailed, UserError
from reaper.storage.files import (
    Folder,
    Lock,
    canonical,
    read_checksummed,
    read_json,
    storing,
    write_checksummed,
    write_folder,
)

FORMAT = 2
DIGEST = re.compile(r"[0-9a-f]{20}")
STAGE_LISTS = ("teachers", "generators", "memories", "evaluations", "singles")  # of a run's record
_DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)
RECORDS = ("runs", "experiments")  # what stages belong to
PARTS = (*RECORDS, "stages", "unfinished")
LEFTOVERS = (".*.part", "*/.*.part", "tensorboard/*/*/.*.part")  # of killed processes
BESIDES = ("damaged", "report", "live", "tensorboard", "wandb")  # of which no stage knows


def digest_of(spec: Mapping[str, Any]) -> str:
    """A stage's name: a digest of everything its result depends on."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:20]


class Artefact(Folder):
    """One finished stage, opened for reading."""

    def __init__(self, folder: Path, digest: str | None = None) -> None:
        super().__init__(folder)
        named, spec = self.manifest.get("digest"), self.manifest.get("spec")
        if not isinstance(spec, dict) or named != digest_of(spec) or named != (digest or named):
            raise DamagedArtefact(folder, "holds another stage than its name says")

    def made(self) -> dict[str, Any]:
        made = super().made()
        if made.pop("digest", self.manifest["digest"]) != self.manifest["digest"]:
            raise DamagedArtefact(self.folder / "made.json", "is of another stage")
        return made


class Store:
    """An output folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.shared = False  # whether other processes may be at work in it, too
        self._lock: Lock | None = None

    # -- the folder as a whole

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """An existing run, for reading."""
        store = cls(folder)
        if not (store.folder / "reaper.json").is_file():
            raise UserError(f"{folder} is not a run of reaper: it has no reaper.json")
        store._header()
        return store

    @classmethod
    def open_for(cls, folder: str | Path, common: Mapping[str, Any], shared: bool = False) -> Store:
        """A new or existing run, for writing: refused when it was made with other settings or when another process
        writes to it, unless both said that they share it."""
        store = cls(folder)
        store.shared = shared
        try:
            store.folder.mkdir(parents=True, exist_ok=True)
            present = {path.name for path in store.folder.iterdir()}
        except OSError as error:
            if error.errno in _DISK_TROUBLE:
                raise StorageFailed(f"cannot write to {folder}: {error.strerror}; make room or repair it") from None
            raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
        if not _is_ours(present):
            raise UserError(f"{folder} is not empty and not a run of reaper; choose another --out")
        store._lock = Lock(store.folder / "locks" / "run")
        if not store._lock.take(shared):
            hint = "wait for it or choose another --out" + ("" if shared else "; --share lets several work on one")
            raise UserError(f"another run is writing to {folder}; {hint}")
        if not (store.folder / "reaper.json").exists():
            write_checksummed(store.folder / "reaper.json", {"format": FORMAT, **common})
        store.compare(common)
        store.make_rooms()
        if not shared:
            store._sweep()
        return store

    def make_rooms(self) -> None:
        """The folders that everything else is written into; they are not made again if the store should vanish."""
        for part in PARTS:
            with storing(self.folder):
                (self.folder / part).mkdir(parents=True, exist_ok=True)

    def _sweep(self) -> None:
        """Removes what killed processes left behind; nobody else is at work here."""
        leftovers = [path for pattern in LEFTOVERS for path in self.folder.glob(pattern)]
        leftovers += [path for path in self.folder.glob("unfinished/*") if self.has(path.name)]
        for leftover in leftovers:
            with storing(leftover):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        for path in self.folder.glob("locks/*"):
            if path.name != "run" and (lock := Lock(path)).take():
                lock.release(remove=True)

    def _header(self) -> dict[str, Any]:
        path = self.folder / "reaper.json"
        header = read_json(path)
        found = header.get("format") if isinstance(header, dict) else None
        if found != FORMAT and isinstance(found, int):
            raise UserError(
                f"{self.folder} was made by an incompatible version (format {found}, this one writes {FORMAT}); choose "
                "another --out"
            )
        return read_checksummed(path)

    @property
    def common(self) -> dict[str, Any]:
        return self._header()

    def compare(self, common: Mapping[str, Any]) -> None:
        """Refuses a study whose stages have other settings than those in here."""
        header = self._header()
        for key, value in common.items():
            if key != "version" and header.get(key) != json.loads(json.dumps(value)):
                what = f"{key}: {_first_difference(header.get(key), value, key)}"
                raise UserError(f"{self.folder} was made with other settings ({what}); choose another --out")

    def check_present(self) -> None:
        """Says so when the folder has been taken away in the middle of a run."""
        if not os.path.exists(self.folder / "reaper.json"):
            raise StorageFailed(f"{self.folder} is gone; bring it back and run the same command again")

    def close(self) -> None:
        if self._lock:
            self._lock.release()

    # -- stages

    def path_of(self, digest: str) -> Path:
        return self.folder / "stages" / digest

    def unfinished(self, digest: str) -> Path:
        """Where the checkpoints of a stage lie until it is finished."""
        return self.folder / "unfinished" / digest

    def stage_lock(self, digest: str) -> Lock:
        return Lock(self.folder / "locks" / digest)

    def has(self, digest: str) -> bool:
        return self.path_of(digest).is_dir()

    def stage(self, digest: str) -> Artefact:
        if not self.has(digest):
            self.check_present()
            raise UserError(f"stage {digest} is not in {self.folder}: the run is not finished")
        return Artefact(self.path_of(digest), digest)

    def stages(self) -> list[str]:
        """The digests of all finished stages."""
        folder = self.folder / "stages"
        return sorted(p.name for p in folder.iterdir() if DIGEST.fullmatch(p.name)) if folder.is_dir() else []

    def unfinished_stages(self) -> list[str]:
        """The digests of stages that have checkpoints."""
        return sorted(p.name for p in self.folder.glob("unfinished/*") if DIGEST.fullmatch(p.name))

    def write_stage(
        self,
        digest: str,
        about: Mapping[str, Any],
        tensors: Mapping[str, Mapping[str, torch.Tensor]],
        documents: Mapping[str, Any],
        made: Mapping[str, Any],
    ) -> None:
        """All files of a stage appear together; its checkpoints have then done their work."""
        about, made = {"format": FORMAT, **about, "digest": digest}, {**made, "digest": digest}
        write_folder(self.path_of(digest), about, tensors, documents, made)
        shutil.rmtree(self.unfinished(digest), ignore_errors=True)

    # -- runs and experiments

    def record_names(self, part: str) -> list[str]:
        """Of all records in one of RECORDS."""
        return sorted(path.stem for path in (self.folder / part).glob("[!.]*.json"))

    def write_run(self, name: str, record: Mapping[str, Any]) -> None:
        write_checksummed(self.folder / "runs" / f"{name}.json", {"format": FORMAT, **record})

    def run_names(self) -> list[str]:
        return self.record_names("runs")

    def run(self, name: str) -> dict[str, Any]:
        return self._record("runs", name, _is_record_of)

    def runs(self) -> list[dict[str, Any]]:
        return [self.run(name) for name in self.run_names()]

    def write_experiment(self, name: str, record: Mapping[str, Any]) -> None:
        write_checksummed(self.folder / "experiments" / f"{name}.json", {"format": FORMAT, **record})

    def experiment(self, name: str) -> dict[str, Any]:
        return self._record("experiments", name, _is_experiment_of)

    def experiments(self) -> list[dict[str, Any]]:
        return [self.experiment(name) for name in self.record_names("experiments")]

    def _record(self, part: str, name: str, is_of: Callable[[str, Mapping[str, Any]], bool]) -> dict[str, Any]:
        path = self.folder / part / f"{name}.json"
        record = read_checksummed(path)
        if not is_of(name, record):
            raise DamagedArtefact(path, f"is not the record of the {part[:-1]} that it is named after")
        return record

    def check_records(self) -> None:
        """Says so when one of them is damaged."""
        self.runs()
        self.experiments()


def _is_ours(present: set[str]) -> bool:
    """Whether a folder may become or already is a run; without reaper.json only where damage was set aside."""
    foreign = {name for name in present if not name.endswith(".part")} - {"locks"}
    return not foreign or "reaper.json" in foreign or ("damaged" in foreign and foreign <= {*PARTS, *BESIDES})


def _is_record_of(name: str, record: Mapping[str, Any]) -> bool:
    """Names and digests in a record become paths, so they are looked at before they are used."""
    try:
        digests = [digest for role in STAGE_LISTS for digest in record[role]] + [record["random"] or "0" * 20]
        words = [record["sequence"], *record["tasks"], *record["titles"]]
        return (
            record["name"] == name
            and name.startswith(record["condition"]["name"] + "--")
            and all(DIGEST.fullmatch(digest) for digest in digests)
            and all(isinstance(word, str) for word in words)
            and isinstance(record["seed"], int)
            and len(record["tasks"]) == len(record["titles"]) > 0
            and all(len(record[role]) in (0, len(record["tasks"])) for role in STAGE_LISTS)
            and 0 <= known_tasks(record) < len(record["tasks"])
        )
    except (KeyError, TypeError):
        return False


def known_tasks(record: Mapping[str, Any]) -> int:
    """How many tasks the memory knew that a run goes on from; nothing is known here of how they were learnt."""
    return int(record["continued"]["tasks"]) if "continued" in record else 0


def _is_experiment_of(name: str, record: Mapping[str, Any]) -> bool:
    """The same for an experiment: its runs by name, and the further stages of its analysis."""
    try:
        digests = [digest for row in record["stages"] for digest in (row["digest"], *row["parents"])]
        words = [record["sequence"], record["command"], *record["tasks"], *record["titles"], *record["runs"]]
        words += [row[key] for row in record["stages"] for key in ("title", "role")]
        abouts = [row["about"] for row in record["stages"]]
        return (
            record["name"] == name
            and name.startswith(record["experiment"] + "--")
            and all(DIGEST.fullmatch(digest) for digest in digests)
            and all(isinstance(word, str) for word in words)
            and all(isinstance(about, dict) for about in abouts)
            and isinstance(record["seed"], int)
            and len(record["tasks"]) == len(record["titles"]) > 0
        )
    except (KeyError, TypeError):
        return False


def _first_difference(old: Any, new: Any, name: str) -> str:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in new:
            if old.get(key) != new[key]:
                return _first_difference(old.get(key), new[key], f"{name}.{key}" if name != "settings" else key)
    return f"{name} was {old}, now {new}"
