"""Packing chosen stages of a run, some of them without their weights.

Where little room is left on the way, a stage can travel thinned: its manifest, rows and curves are all that a report
needs. What was left out stays listed in the manifest with its checksum, so nobody takes such a stage for a whole one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from io import BytesIO
from pathlib import Path

from reaper.storage.files import MANIFEST, UNCHECKED, checksummed
from reaper.storage.pack_file import PackWriter, new_pack
from reaper.storage.store import Store


def export_stages(store: Store, file: Path, kept: Mapping[str, Collection[str]], overwrite: bool = False) -> str:
    """Packs the records of all runs and the stages in `kept`: digest -> which of its files; a sentence about it."""
    with new_pack(file, "run", overwrite) as pack:
        with (store.folder / "reaper.json").open("rb") as source:
            pack.add("reaper.json", source)
        thinned = sum(_add_stage(pack, store, digest, names) for digest, names in kept.items())
        for name in store.run_names():
            store.run(name)
            with (store.folder / "runs" / f"{name}.json").open("rb") as source:
                pack.add(f"runs/{name}.json", source)
    return f"{len(kept)} finished stages, {thinned} of them thinned"


def _add_stage(pack: PackWriter, store: Store, digest: str, names: Collection[str]) -> bool:
    """Whether anything was left out."""
    artefact, folder = store.stage(digest), f"stages/{digest}"
    artefact.check()
    kept = {name: entry for name, entry in artefact.files.items() if name in names}
    left_out = {name: entry for name, entry in artefact.listed.items() if name not in kept}
    manifest = {key: value for key, value in artefact.manifest.items() if key != "left_out"}
    manifest |= {"files": kept, **({"left_out": left_out} if left_out else {})}
    pack.add(f"{folder}/{MANIFEST}", BytesIO(checksummed(manifest)))
    for name in (UNCHECKED, *kept):
        with (artefact.folder / name).open("rb") as source:
            pack.add(f"{folder}/{name}", source)
    return bool(left_out)
