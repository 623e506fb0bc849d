"""An output folder: finished stages, unfinished ones, and which of them make up a run.

OUT/reaper.json               format, version, preset and settings that all stages have in common (StoreHeader)
OUT/stages/DIGEST/            one finished stage
    manifest.json             its spec and the checksum of each file (StageManifest)
    *.safetensors, *.json     its results
    provenance.json           how long it took, on which machine: the only file that differs between two equal runs
OUT/unfinished/DIGEST/N/      the newest checkpoints of a stage that is not finished (checkpoints.py)
OUT/runs/NAME.json            which stages make up a condition's run with one seed (RunRecord)
OUT/experiments/NAME.json     which runs and further stages make up one of the paper's experiments (ExperimentRecord)
OUT/locks/                    which process works on what
OUT/live/DIGEST.json          the progress of a stage, or why it ended before it was finished (monitoring/heartbeat.py)
OUT/tensorboard/              curves (monitoring/recorder.py); no result depends on them
OUT/damaged/                  what `reaper verify --set-aside` moved out of the way
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from reaper.errors import DISK_ERRORS, DamagedArtefact, StorageFailed, UserError
from reaper.storage.checksummed_dir import PROVENANCE, ChecksummedDir, write_checksummed_dir
from reaper.storage.files import read_checksummed, read_json, storing, write_checksummed
from reaper.storage.locks import Lock
from reaper.storage.manifests import Provenance, StageManifest
from reaper.storage.parsing import DIGEST
from reaper.storage.records import STORE_FORMAT, ExperimentRecord, RunRecord, StoreHeader

HEADER = "reaper.json"
RECORD_FOLDERS = ("runs", "experiments")
FOLDERS = (*RECORD_FOLDERS, "stages", "unfinished")
OTHER_FOLDERS = ("damaged", "report", "live", "tensorboard", "wandb")  # no result depends on them
LEFTOVERS = (".*.part", "*/.*.part", "tensorboard/*/*/.*.part")  # of killed processes


class Artefact(ChecksummedDir):
    """One finished stage, opened for reading."""

    def __init__(self, folder: Path, digest: str | None = None) -> None:
        super().__init__(folder)
        self.manifest = StageManifest.from_json(self.contents, folder)
        if digest not in (None, self.manifest.digest):
            raise DamagedArtefact(folder, "holds another stage than its name says")

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.manifest.spec

    @property
    def title(self) -> str:
        return self.manifest.title

    def provenance(self) -> Provenance:
        provenance = super().provenance()
        if provenance.digest not in ("", self.manifest.digest):
            raise DamagedArtefact(self.folder / PROVENANCE, "belongs to another stage")
        return provenance


class Store:
    """An output folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.shared = False  # whether other processes may work in it, too
        self._lock: Lock | None = None

    # -- the folder as a whole

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """An existing store, for reading."""
        store = cls(folder)
        if not (store.folder / HEADER).is_file():
            raise UserError(f"{folder} is not a run of reaper: it has no {HEADER}")
        _ = store.header  # raises where it is of another format, or damaged
        return store

    @classmethod
    def open_for(cls, folder: str | Path, header: StoreHeader, shared: bool = False) -> Store:
        """A new or existing store, for writing: refused when its settings differ, or when another process writes to
        it, unless both share it."""
        store = cls(folder)
        store.shared = shared
        try:
            store.folder.mkdir(parents=True, exist_ok=True)
            present = {path.name for path in store.folder.iterdir()}
        except OSError as error:
            if error.errno in DISK_ERRORS:
                raise StorageFailed(f"cannot write to {folder}: {error.strerror}; free space or repair it") from None
            raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
        if not _may_be_store(present):
            raise UserError(f"{folder} is not empty and not a run of reaper; choose another --out")
        if HEADER in present:
            store.check_format()  # before anything is written to a folder of another version
        store._lock = Lock(store.folder / "locks" / "run")
        if not store._lock.take(shared):
            hint = "wait for it or choose another --out" + ("" if shared else "; --share lets several work on one")
            raise UserError(f"another run is writing to {folder}; {hint}")
        if not (store.folder / HEADER).exists():
            write_checksummed(store.folder / HEADER, header.to_json())
        store.compare(header)
        store.make_folders()
        if not shared:
            store._sweep()
        return store

    def make_folders(self) -> None:
        """The folders that everything else is written into; they are not created again if the store vanishes."""
        for name in FOLDERS:
            with storing(self.folder):
                (self.folder / name).mkdir(parents=True, exist_ok=True)

    def _sweep(self) -> None:
        """Removes what killed processes left behind; no other process works here."""
        leftovers = [path for pattern in LEFTOVERS for path in self.folder.glob(pattern)]
        leftovers += [path for path in self.folder.glob("unfinished/*") if self.has(path.name)]
        for leftover in leftovers:
            with storing(leftover):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        for path in self.folder.glob("locks/*"):
            if path.name != "run" and (lock := Lock(path)).take():
                lock.release(remove=True)

    @property
    def header(self) -> StoreHeader:
        self.check_format()
        path = self.folder / HEADER
        return StoreHeader.from_json(read_checksummed(path), path)

    def check_format(self) -> None:
        """Raises UserError for a store of another version, with what to do; anything but a number is damage."""
        header = read_json(self.folder / HEADER)
        found = header.get("format") if isinstance(header, dict) else None
        if type(found) is not int or found == STORE_FORMAT:
            return
        if found > STORE_FORMAT:
            raise UserError(
                f"{self.folder} was made by a newer version of reaper (format {found}); update reaper to open it"
            )
        raise UserError(older_version(self.folder, found))

    def compare(self, header: StoreHeader) -> None:
        """Refuses a study whose stages have other settings than those in here."""
        mine, theirs = self.header, json.loads(json.dumps(header.to_json()))
        for name in ("preset", "fraction", "settings"):
            if (old := getattr(mine, name)) != theirs[name]:
                what = f"{name}: {_first_difference(old, theirs[name], name)}"
                raise UserError(f"{self.folder} was made with other settings ({what}); choose another --out")
        given, now = mine.user_values, theirs.get("user_values")
        if given is not None and now is not None and given != now:
            # Equal base settings: the value equals the preset's, but it would also replace those of some conditions.
            name = next(name for name in (*now, *given) if given.get(name) != now.get(name))
            what = f"--{name} {given[name]} was given, and not now" if name in given else f"--{name} was not given"
            raise UserError(f"{self.folder} was made with other settings ({what}); choose another --out")

    def check_present(self) -> None:
        """Raises StorageFailed when the folder was removed in the middle of a run."""
        if not os.path.exists(self.folder / HEADER):
            raise StorageFailed(f"{self.folder} is gone; restore it and run the same command again")

    def close(self) -> None:
        if self._lock:
            self._lock.release()

    # -- stages

    def path_of(self, digest: str) -> Path:
        return self.folder / "stages" / digest

    def unfinished(self, digest: str) -> Path:
        """The folder of a stage's checkpoints, until it is finished."""
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
        manifest: StageManifest,
        tensors: Mapping[str, Mapping[str, torch.Tensor]],
        documents: Mapping[str, Any],
        provenance: Provenance,
    ) -> None:
        """Writes a finished stage, whose files appear together, and removes its checkpoints."""
        write_checksummed_dir(
            self.path_of(manifest.digest),
            about=manifest.to_json(),
            tensors=tensors,
            documents=documents,
            provenance=provenance.of_stage(manifest.digest),
        )
        shutil.rmtree(self.unfinished(manifest.digest), ignore_errors=True)

    # -- runs and experiments

    def record_names(self, folder: str) -> list[str]:
        """The names of all records in one of RECORD_FOLDERS."""
        return sorted(path.stem for path in (self.folder / folder).glob("[!.]*.json"))

    def write_run(self, record: RunRecord) -> None:
        write_checksummed(self.folder / "runs" / f"{record.name}.json", record.to_json())

    def run_names(self) -> list[str]:
        return self.record_names("runs")

    def run(self, name: str) -> RunRecord:
        path = self.folder / "runs" / f"{name}.json"
        return _named(RunRecord.from_json(read_checksummed(path), path), path)

    def runs(self) -> list[RunRecord]:
        return [self.run(name) for name in self.run_names()]

    def write_experiment(self, record: ExperimentRecord) -> None:
        write_checksummed(self.folder / "experiments" / f"{record.name}.json", record.to_json())

    def experiment(self, name: str) -> ExperimentRecord:
        path = self.folder / "experiments" / f"{name}.json"
        return _named(ExperimentRecord.from_json(read_checksummed(path), path), path)

    def experiments(self) -> list[ExperimentRecord]:
        return [self.experiment(name) for name in self.record_names("experiments")]

    def check_records(self) -> None:
        """Raises DamagedArtefact when a record is damaged."""
        self.runs()
        self.experiments()


def _named(record: Any, path: Path) -> Any:
    """A record, unless it was copied or renamed to another's file."""
    if record.name != path.stem:
        raise DamagedArtefact(path, f"is {record.what} of another name")
    return record


def older_version(folder: Path, found: int) -> str:
    return (
        f"{folder} was made by an earlier version of reaper (format {found}); `reaper convert {folder} NEW` converts "
        "it to a new folder"
    )


def _may_be_store(present: set[str]) -> bool:
    """Whether a folder may become or already is a store; without a header only where damage was set aside."""
    foreign = {name for name in present if not name.endswith(".part")} - {"locks"}
    return not foreign or HEADER in foreign or ("damaged" in foreign and foreign <= {*FOLDERS, *OTHER_FOLDERS})


def _first_difference(old: Any, new: Any, name: str) -> str:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*new, *old):
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{name}.{key}" if name != "settings" else key)
    return f"{name} was {_shown(old)}, now {_shown(new)}"


def _shown(value: Any) -> str:
    return "the default" if value is None else str(value)
