"""Converting what an earlier version wrote: an output folder, an exported long-term memory, or an unpacked pack.

The original is only read. Settings and names have changed since, and a stage is named by a digest of them, so every
stage is written under its new name; weights and scores are the same bytes as before. A run that was interrupted resumes
from its converted checkpoints.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.checkpoints import KEPT, CheckpointDir
from reaper.storage.checksummed_dir import MANIFEST, write_checksummed_dir, write_manifest
from reaper.storage.files import atomic_dir, canonical, digest_of, read_checksummed, read_json, sha256, storing
from reaper.storage.format2 import names
from reaper.storage.format2.chains import ChainBuilder, OldStage, analysis_stages
from reaper.storage.format2.checkpoints import convert_paths
from reaper.storage.format2.documents import CONVERTERS, OldDir, opened
from reaper.storage.format2.records import convert_condition, convert_experiment, convert_header, convert_run
from reaper.storage.format2.specs import convert_spec, convert_title
from reaper.storage.manifests import (
    EXPORTED_MEMORY,
    CheckpointManifest,
    FileEntry,
    MemoryManifest,
    Provenance,
    StageManifest,
)
from reaper.storage.pack_file import PACK_FORMAT, Pack
from reaper.storage.store import HEADER, Store

Json = dict[str, Any]


def convert(old: Path, new: Path) -> str:
    """Converts an output folder or an exported memory of format 2 to a new folder; returns a summary."""
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise UserError(f"{new} already exists; choose another folder")
    if (old / HEADER).is_file():
        _check_format(old / HEADER, names.FORMAT)
        with _new_folder(new) as building, _refusing(old):
            return Converter(old, skip_damaged=True).write(building)
    if (old / MANIFEST).is_file():
        _check_format(old / MANIFEST, 1)
        with _new_folder(new) as building, _refusing(old):
            return convert_memory(old, building)
    if old.is_file():
        raise UserError(f"{old} is a file; `reaper import {old} {new}` converts a pack on the way")
    raise UserError(f"{old} holds neither a run nor a long-term memory of reaper")


@contextmanager
def _new_folder(new: Path) -> Iterator[Path]:
    with storing(new):
        new.absolute().parent.mkdir(parents=True, exist_ok=True)
    with atomic_dir(new) as building:
        yield building


def _check_format(path: Path, wanted: int) -> None:
    found = read_json(path)
    if not isinstance(found, dict) or names.CHECKSUM not in found or found.get("format") != wanted:
        raise UserError(f"{path.parent} was not written by an earlier version of reaper; there is nothing to convert")


@contextmanager
def unpacked(pack: Pack, folder: Path) -> Iterator[Path]:
    """Unpacks a pack, converts it if it is of an earlier version, and removes it in the end."""
    with pack.unpacked(folder):
        if pack.format == PACK_FORMAT:
            yield folder
            return
        converted = folder / "converted"
        with _refusing(folder):
            converted.mkdir()
            _ = convert_memory(folder, converted) if pack.kind == "weights" else Converter(folder).write(converted)
        yield converted


@contextmanager
def _refusing(old: Path) -> Iterator[None]:
    """What no earlier version wrote ends as one line: files may come from anywhere."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedArtefact(old, f"is not what an earlier version wrote ({type(error).__name__})") from None


class Converter:
    """One output folder of format 2. With `skip_damaged`, damaged stages are left out, for the run to recreate them."""

    def __init__(self, old: Path, skip_damaged: bool = False) -> None:
        self.old, self.skip_damaged, self.damaged = old, skip_damaged, 0
        self.header = read_checksummed(old / HEADER, names.CHECKSUM)
        self.runs = {record["name"]: record for record in self._records("runs")}
        self.experiments = self._records("experiments")
        self.stages = dict(self._finished())
        self.known = {digest: _old_stage(folder) for digest, folder in self.stages.items()}
        for stage in self._derived():
            self.known.setdefault(stage.digest, stage)
        self._now: dict[str, str] = {}

    def _digests(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.old / folder).glob("[0-9a-f]*") if path.is_dir())

    def _finished(self) -> Iterator[tuple[str, OldDir]]:
        """Finished stages by digest; those that lack files come last."""
        found = []
        for digest in self._digests("stages"):
            try:
                found.append((digest, opened(self.old / "stages" / digest)))
            except DamagedArtefact:
                if not self.skip_damaged:
                    raise
                self.damaged += 1
        yield from sorted(found, key=lambda entry: len(entry[1].left_out))

    def _records(self, folder: str) -> list[Json]:
        paths = sorted((self.old / folder).glob("[!.]*.json"))
        records = [read_checksummed(path, names.CHECKSUM) for path in paths]
        for path, record in zip(paths, records, strict=True):
            if record["name"] != path.stem:
                raise DamagedArtefact(path, "is the record of another name")
        return records

    def _derived(self) -> Iterator[OldStage]:
        """Stages of runs and experiments, whether they are finished or not."""
        for record in self.runs.values():
            yield from ChainBuilder(record, self.header).stages()
        for experiment in self.experiments:
            yield from analysis_stages(experiment, self.runs)

    def digest_now(self, digest: str) -> str:
        """The name of a stage in format 3; of one that nothing is known about, its old name."""
        if digest not in self._now:
            known = self.known.get(digest)
            self._now[digest] = digest_of(self.spec_now(known)) if known else digest
        return self._now[digest]

    def spec_now(self, stage: OldStage) -> Json:
        return convert_spec(stage.spec, self.digest_now)

    def write(self, new: Path) -> str:
        store = Store.open_for(new, convert_header(self.header))
        try:
            for digest in self.stages:
                self._write_stage(store, digest)
            begun = [digest for digest in self._digests("unfinished") if digest not in self.stages]
            checkpoints = sum(self._write_checkpoints(store, digest) for digest in begun)
            for record in self.runs.values():
                store.write_run(convert_run(record, self.known, self.digest_now))
            for record in self.experiments:
                store.write_experiment(convert_experiment(record, self.digest_now))
            store.check_records()
        finally:
            store.close()
        shutil.rmtree(new / "locks", ignore_errors=True)
        without = f"; {self.damaged} damaged stages were left out, run the command of their run" if self.damaged else ""
        return f"{len(self.runs)} runs, {len(store.stages())} finished stages and {checkpoints} checkpoints{without}"

    def _write_stage(self, store: Store, digest: str) -> None:
        """Conditions may share a stage now that had one each before; the results are the same."""
        folder, stage = self.stages[digest], self.known[digest]
        manifest = StageManifest(self.spec_now(stage), convert_title(stage.title))
        if store.has(manifest.digest):
            return
        with atomic_dir(store.path_of(manifest.digest)) as building:
            _copy_files(folder, building, manifest.to_json(), folder.provenance().of_stage(manifest.digest))

    def _write_checkpoints(self, store: Store, digest: str) -> int:
        """How many checkpoints were written; none of a stage that no record knows."""
        target = CheckpointDir(store.unfinished(self.digest_now(digest)), self.digest_now(digest))
        if digest not in self.known or target.numbers() or store.has(target.digest):
            return 0
        source = self.old / "unfinished" / digest
        numbers = sorted(int(path.name) for path in source.glob("[0-9]*") if path.name.isdigit())
        written = 0
        for number in numbers[-KEPT:]:
            try:
                folder = opened(source / str(number))
            except DamagedArtefact:
                continue  # there is one before it
            write_checksummed_dir(
                target.folder / str(number),
                about=CheckpointManifest(target.digest, number).to_json(),
                tensors={"tensors": convert_paths(folder.tensors("tensors"))},
                documents={"others": convert_paths(folder.document("others"))},
                provenance=Provenance(),
            )
            written += 1
        return written


def _old_stage(folder: OldDir) -> OldStage:
    spec, title = folder.contents.get("spec"), str(folder.contents.get("title", folder.folder.name))
    if not isinstance(spec, dict) or digest_of(spec) != folder.folder.name:
        raise DamagedArtefact(folder.folder, "holds another stage than its name says")
    return OldStage(spec, title)


def _copy_files(folder: OldDir, building: Path, about: Mapping[str, Any], provenance: Provenance) -> None:
    """Copies files as they are, except for those whose keys have new names."""
    for name in folder.files:
        if name in CONVERTERS:
            (building / name).write_text(canonical(CONVERTERS[name](read_json(folder.verified(name)))))
        elif name in names.FILES:
            states = {names.STATES[key]: tensor for key, tensor in folder.tensors(Path(name).stem).items()}
            save_file(states, building / names.FILES[name])
        else:
            shutil.copyfile(folder.verified(name), building / name)
    written = sorted(path.name for path in building.iterdir())
    entries = {name: FileEntry((building / name).stat().st_size, sha256(building / name)) for name in written}
    # The checksum of a file that is not here and would be rewritten is unknown.
    left_out = {name: vars(entry) for name, entry in folder.left_out.items() if name not in names.FILES}
    write_manifest(building, {**about, **({"left_out": left_out} if left_out else {})}, entries, provenance)


def convert_memory(old: Path, new: Path) -> str:
    """Converts an exported long-term memory; `new` exists and is empty."""
    folder = OldDir(old)
    folder.check()
    about = folder.contents
    if about.get("kind") != EXPORTED_MEMORY:
        raise UserError(f"{old} holds no long-term memory that was exported; convert the run that it belongs to")
    spec = convert_spec(about["spec"], lambda digest: digest)
    manifest = MemoryManifest(
        spec=spec,
        title=convert_title(about["title"]),
        precision=about["precision"],
        stage=digest_of(spec),
        condition=convert_condition(about["condition"]),
        sequence=about["sequence"],
        titles=tuple(about["titles"]),
    )
    _copy_files(folder, new, manifest.to_json(), folder.provenance())
    return f"a long-term memory of {', '.join(manifest.titles)}"
