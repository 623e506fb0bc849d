"""Moving a run, or one long-term memory of it, to another place as one file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from reaper.agent import choose_memory, open_agent
from reaper.errors import DamagedArtefact, UserError
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.files import MANIFEST, UNCHECKED, Folder, storing, sync
from reaper.storage.memory import PortableMemory, write_portable
from reaper.storage.pack_file import Pack, PackWriter, new_pack
from reaper.storage.store import RECORDS, Artefact, Store

# -- out of a folder


def export_run(out: Path, file: Path, overwrite: bool = False) -> str:
    """Packs all that is needed to go on with a run elsewhere; a sentence about what went in.

    Another process may be at work on it: finished stages never change, and of checkpoints whole ones are taken.
    """
    store = Store.open(out)
    with new_pack(file, "run", overwrite) as pack:
        with (out / "reaper.json").open("rb") as source:
            pack.add("reaper.json", source)
        # Checkpoints before stages: one that is finished meanwhile goes in, at worst, in both forms.
        checkpoints = sum(_add_checkpoints(pack, store, digest) for digest in store.unfinished_stages())
        stages = sum(_add_stage(pack, store, digest) for digest in store.stages())
        store.check_records()  # none of them is damaged
        for part in RECORDS:
            for name in store.record_names(part):
                with (out / part / f"{name}.json").open("rb") as source:
                    pack.add(f"{part}/{name}.json", source)
    return f"{len(store.run_names())} runs, {stages} finished stages and {checkpoints} checkpoints"


def _add_stage(pack: PackWriter, store: Store, digest: str) -> bool:
    path = store.path_of(digest)
    return _add_folder(pack, store, path, lambda: _whole_stage(path, digest), path.exists)


def _whole_stage(path: Path, digest: str) -> Artefact:
    artefact = Artefact(path, digest)
    artefact.made()
    return artefact


def _add_checkpoints(pack: PackWriter, store: Store, digest: str) -> int:
    shelf = CheckpointDir(store.unfinished(digest), digest)

    def is_kept(number: int) -> bool:
        return number in shelf.numbers()[-2:] and not store.has(digest)

    return sum(
        _add_folder(
            pack, store, shelf.folder / str(number), lambda n=number: shelf.opened(n), lambda n=number: is_kept(n)
        )
        for number in shelf.numbers()[-2:]
    )


def _add_folder(
    pack: PackWriter, store: Store, path: Path, opened: Callable[[], Folder], is_kept: Callable[[], bool]
) -> bool:
    """All files of a folder; False when it was removed meanwhile. They are all opened before the first is read, since
    an open file can be read to its end even if it is removed."""
    with ExitStack() as held:
        try:
            folder = opened()
            names = (MANIFEST, UNCHECKED, *folder.files)
            files = {name: held.enter_context((path / name).open("rb")) for name in names}
        except (DamagedArtefact, OSError) as error:
            if not is_kept():
                return False
            raise error if isinstance(error, DamagedArtefact) else DamagedArtefact(path, "is not complete") from None
        for name, file in files.items():
            found = pack.add(str(path.relative_to(store.folder) / name), file)
            if found != folder.files.get(name, found):
                raise DamagedArtefact(path / name, "does not match its checksum")
    return True


def export_weights(
    out: Path, file: Path, wanted: dict[str, Any], after_task: int | None, half: bool = False, overwrite: bool = False
) -> str:
    """Packs one long-term memory, chosen as for `reaper play`; a sentence about what went in."""
    store = Store.open(out)
    record, digest = choose_memory(store, wanted, after_task)
    artefact = store.stage(digest)
    folder = file.with_name(f".{file.name}.memory.{os.getpid()}.part")
    with new_pack(file, "weights", overwrite) as pack:
        try:
            write_portable(folder, artefact, record, half)
            for path in sorted(folder.iterdir()):
                with path.open("rb") as source:
                    pack.add(path.name, source)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    title = artefact.manifest.get("title", digest)
    return f"the long-term memory of {title}, {'half' if half else 'full'} precision"


# -- into a folder


def import_pack(file: Path, out: Path) -> str:
    """Unpacks a run or a long-term memory; a sentence about what is there now. All of it is checked first."""
    # A hidden folder on the same disk as `out`, so that what is in it can be renamed into place.
    home = out if out.is_mount() else out.absolute().parent
    folder = home / f".{out.absolute().name}.{os.getpid()}.part"
    with Pack(file) as pack:
        with storing(out):
            home.mkdir(parents=True, exist_ok=True)
        with pack.unpacked(folder):
            if pack.kind == "weights":
                return _move_memory(folder, out)
            _check_run(folder)
            return _merge(Store.open(folder), out)


def _move_memory(folder: Path, out: Path) -> str:
    memory = PortableMemory(folder)
    _check_folder(memory)
    agent = open_agent(memory)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already; choose another folder for this long-term memory")
    with storing(out):
        folder.rename(out)
        sync(out.absolute().parent)
    return f"a long-term memory of {', '.join(agent.tasks)}"


def _check_folder(folder: Folder) -> None:
    folder.check()
    extra = {path.name for path in folder.folder.iterdir()} - {MANIFEST, UNCHECKED, *folder.files}
    if extra:
        raise DamagedArtefact(folder.folder, f"holds files that it does not list ({sorted(extra)[0]})")


def _check_run(folder: Path) -> None:
    """Every seal, name and checksum of an unpacked run."""
    store = Store.open(folder)
    store.check_records()
    for digest in store.stages():
        _check_folder(store.stage(digest))
    for digest in store.unfinished_stages():
        shelf = CheckpointDir(store.unfinished(digest), digest)
        for number in shelf.numbers():
            _check_folder(shelf.opened(number))


def _merge(incoming: Store, out: Path) -> str:
    """Adds what is not there yet; what is there is left alone."""
    common = {key: value for key, value in incoming.common.items() if key != "format"}
    store = Store.open_for(out, common)
    try:
        known = [digest for digest in incoming.stages() if store.has(digest)]
        for digest in known:
            if store.stage(digest).listed != incoming.stage(digest).listed:
                raise UserError(
                    f"{store.path_of(digest)} and the same stage in the pack have different results; import into "
                    "another folder"
                )
        new = [digest for digest in incoming.stages() if digest not in known]
        for digest in known:
            if incoming.stage(digest).files.keys() > store.stage(digest).files.keys():  # ours was thinned
                _replace(incoming.path_of(digest), store.path_of(digest))
        for digest in new:
            _move(incoming.path_of(digest), store.path_of(digest))
        for digest in incoming.unfinished_stages():
            if not store.has(digest) and not store.unfinished(digest).exists():
                _move(incoming.unfinished(digest), store.unfinished(digest))
        for part in RECORDS:
            for name in set(incoming.record_names(part)) - set(store.record_names(part)):
                _move(incoming.folder / part / f"{name}.json", store.folder / part / f"{name}.json")
    finally:
        store.close()
    return f"{len(incoming.run_names())} runs, {len(new)} new stages" + (f", {len(known)} known" if known else "")


def _replace(source: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.part")
    with storing(target):
        target.rename(old)
    _move(source, target)
    shutil.rmtree(old, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    with storing(target):
        source.rename(target)
        sync(target.parent)
