"""Moving a run, or one long-term memory of it, to another place as one file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

from reaper.errors import DamagedArtefact, UserError
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.checksummed_dir import MANIFEST, OWN_FILES, PROVENANCE, ChecksummedDir
from reaper.storage.convert import unpacked
from reaper.storage.exported_memory import ExportedMemory, write_exported
from reaper.storage.files import checksummed, storing, sync
from reaper.storage.find import FoundMemory, RunChoice, choose_memory, found_in
from reaper.storage.pack_file import Pack, PackWriter, new_pack
from reaper.storage.store import HEADER, RECORD_FOLDERS, Artefact, Store

# -- out of a folder


def export_run(out: Path, file: Path, overwrite: bool = False) -> str:
    """Packs all that is needed to resume a run elsewhere; returns a summary.

    Another process may be working on it: finished stages never change, and only complete checkpoints are packed.
    """
    store = Store.open(out)
    with new_pack(file, "run", overwrite) as pack:
        _add_file(pack, out, HEADER)
        # Checkpoints before stages: a stage that finishes meanwhile is packed, at worst, in both forms.
        checkpoints = sum(_add_checkpoints(pack, store, digest) for digest in store.unfinished_stages())
        stages = sum(_add_stage(pack, store, digest) for digest in store.stages())
        _add_records(pack, store)
    return f"{len(store.run_names())} runs, {stages} finished stages and {checkpoints} checkpoints"


def export_stages(store: Store, file: Path, kept: Mapping[str, Collection[str]], overwrite: bool = False) -> str:
    """Packs all records and the stages in `kept`, each with the named files only; returns a summary.

    Where space is short, a stage can be packed without its weights: its manifest, rows and curves are all that a report
    reads. What was left out stays listed in the manifest with its checksum, so no one takes the stage for complete.
    """
    with new_pack(file, "run", overwrite) as pack:
        _add_file(pack, store.folder, HEADER)
        partial = sum(_add_some_files(pack, store, digest, names) for digest, names in kept.items())
        _add_records(pack, store)
    return f"{len(kept)} finished stages, {partial} of them without some files"


def export_weights(
    out: Path,
    file: Path,
    choice: RunChoice,
    *,
    after_task: int | None = None,
    half: bool = False,
    overwrite: bool = False,
) -> str:
    """Packs one long-term memory; returns a summary."""
    store = Store.open(out)
    record, digest = choose_memory(store, choice, after_task)
    artefact = store.stage(digest)
    folder = file.with_name(f".{file.name}.memory.{os.getpid()}.part")
    with new_pack(file, "weights", overwrite) as pack:
        try:
            write_exported(folder, artefact, record, half)
            for path in sorted(folder.iterdir()):
                _add_file(pack, folder, path.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return f"the long-term memory of {artefact.title}, {'half' if half else 'full'} precision"


def _add_file(pack: PackWriter, folder: Path, name: str) -> None:
    with (folder / name).open("rb") as source:
        pack.add(name, source)


def _add_records(pack: PackWriter, store: Store) -> None:
    store.check_records()
    for folder in RECORD_FOLDERS:
        for name in store.record_names(folder):
            _add_file(pack, store.folder, f"{folder}/{name}.json")


def _add_some_files(pack: PackWriter, store: Store, digest: str, names: Collection[str]) -> bool:
    """Whether anything was left out."""
    artefact, folder = store.stage(digest), f"stages/{digest}"
    artefact.check()
    kept = {name: asdict(entry) for name, entry in artefact.files.items() if name in names}
    left_out = {name: asdict(entry) for name, entry in artefact.listed.items() if name not in kept}
    manifest = {**artefact.manifest.to_json(), "files": kept, **({"left_out": left_out} if left_out else {})}
    pack.add(f"{folder}/{MANIFEST}", BytesIO(checksummed(manifest)))
    for name in (PROVENANCE, *kept):
        _add_file(pack, store.folder, f"{folder}/{name}")
    return bool(left_out)


def _add_stage(pack: PackWriter, store: Store, digest: str) -> bool:
    path = store.path_of(digest)
    return _add_folder(pack, store, lambda: Artefact(path, digest), path.exists)


def _add_checkpoints(pack: PackWriter, store: Store, digest: str) -> int:
    checkpoints = CheckpointDir(store.unfinished(digest), digest)

    def is_kept(number: int) -> bool:
        return number in checkpoints.numbers()[-2:] and not store.has(digest)

    return sum(
        _add_folder(pack, store, lambda n=number: checkpoints.open(n), lambda n=number: is_kept(n))
        for number in checkpoints.numbers()[-2:]
    )


def _add_folder(
    pack: PackWriter, store: Store, open_folder: Callable[[], ChecksummedDir], is_kept: Callable[[], bool]
) -> bool:
    """Packs all files of a folder; False when another process has removed it. They are all opened before the first is
    read, since an open file can be read to its end even when it is removed."""
    with ExitStack() as held:
        try:
            folder = open_folder()
            folder.provenance()
            files = {
                name: held.enter_context((folder.folder / name).open("rb")) for name in (*OWN_FILES, *folder.files)
            }
        except DamagedArtefact:
            if is_kept():
                raise
            return False
        except OSError as error:
            if is_kept():
                raise DamagedArtefact(Path(error.filename or store.folder), "is missing") from None
            return False
        for name, file in files.items():
            path = folder.folder / name
            found = pack.add(str(path.relative_to(store.folder)), file)
            if found != folder.files.get(name, found):
                raise DamagedArtefact(path, "does not match its checksum")
    return True


# -- into a folder


def import_pack(file: Path, out: Path, check_memory: Callable[[FoundMemory], object]) -> str:
    """Unpacks a run or a long-term memory, after all of it was checked; returns a summary.

    `check_memory` raises an error where the weights of a memory do not fit its settings.
    """
    # A hidden folder on the same disk as `out`, so that its contents can be renamed into place.
    home = out if out.is_mount() else out.absolute().parent
    folder = home / f".{out.absolute().name}.{os.getpid()}.part"
    with Pack(file) as pack:
        with storing(out):
            home.mkdir(parents=True, exist_ok=True)
        with unpacked(pack, folder) as unpacked_folder:
            if pack.kind == "weights":
                return _move_memory(unpacked_folder, out, check_memory)
            check_run(unpacked_folder)
            return _merge(Store.open(unpacked_folder), out)


def _move_memory(folder: Path, out: Path, check_memory: Callable[[FoundMemory], object]) -> str:
    exported = ExportedMemory(folder)
    _check_folder(exported)
    found = found_in(exported)
    check_memory(found)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} already exists; choose another folder for this long-term memory")
    with storing(out):
        folder.rename(out)
        sync(out.absolute().parent)
    return f"a long-term memory of {', '.join(found.memory.tasks)}"


def _check_folder(folder: ChecksummedDir) -> None:
    folder.check()
    folder.check_nothing_else()


def check_run(folder: Path) -> None:
    """Verifies every name and checksum of an unpacked run."""
    store = Store.open(folder)
    store.check_records()
    for digest in store.stages():
        _check_folder(store.stage(digest))
    for digest in store.unfinished_stages():
        checkpoints = CheckpointDir(store.unfinished(digest), digest)
        for number in checkpoints.numbers():
            _check_folder(checkpoints.open(number))


def _merge(incoming: Store, out: Path) -> str:
    """Adds what is not there yet; what is there stays as it is."""
    store, runs = Store.open_for(out, incoming.header), len(incoming.run_names())
    try:
        added = _merge_stages(incoming, store, incoming.stages())
        for digest in incoming.unfinished_stages():
            if not store.has(digest) and not store.unfinished(digest).exists():
                move(incoming.unfinished(digest), store.unfinished(digest))
        for folder in RECORD_FOLDERS:
            for name in set(incoming.record_names(folder)) - set(store.record_names(folder)):
                move(incoming.folder / folder / f"{name}.json", store.folder / folder / f"{name}.json")
    finally:
        store.close()
    return f"{runs} runs, {added}"


def _merge_stages(incoming: Store, store: Store, digests: Sequence[str]) -> str:
    known = [digest for digest in digests if store.has(digest)]
    for digest in known:
        mine, theirs = store.stage(digest).listed, incoming.stage(digest).listed
        if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
            raise UserError(
                f"{store.path_of(digest)} and the same stage in the pack have different results; import into "
                "another folder"
            )
    for digest in known:
        if incoming.stage(digest).files.keys() > store.stage(digest).files.keys():  # ours lacks some files
            _replace(incoming.path_of(digest), store.path_of(digest))
    new = [digest for digest in digests if digest not in known]
    for digest in new:
        move(incoming.path_of(digest), store.path_of(digest))
    return f"{len(new)} new stages" + (f", {len(known)} known" if known else "")


def _replace(source: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.part")
    with storing(target):
        target.rename(old)
    move(source, target)
    shutil.rmtree(old, ignore_errors=True)


def move(source: Path, target: Path) -> None:
    with storing(target):
        source.rename(target)
        sync(target.parent)
