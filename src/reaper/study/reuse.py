"""Which stages of a study are taken from packs and other output folders instead of being run (`--reuse`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from reaper.storage.reuse import held_stages, take_stages
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage
from reaper.study.kinds.evaluate import EVALUATE

AGENT = "agent.safetensors"
PICTURES = "states.safetensors"  # generated states, which only a report reads


def choose_sources(stages: Sequence[Stage], sources: Sequence[Path], finished: Collection[str]) -> dict[str, Path]:
    """Digest -> the source that a stage is taken from, for stages (parents first) that are not finished.

    Packs may leave files out, such as the stored states of a memory. A stage that lacks some is taken only where
    nothing that is left to run would read them.
    """
    held = [(source, held_stages(source)) for source in sources]
    readers: dict[str, list[Stage]] = {}
    for stage in stages:
        for parent in stage.parents.values():
            readers.setdefault(parent, []).append(stage)
    chosen: dict[str, Path] = {}
    for stage in reversed(stages):
        if stage.digest in finished:
            continue
        to_run = [each for each in readers.get(stage.digest, ()) if each.digest not in {*finished, *chosen}]
        found = [(len(own[stage.digest]), source, own[stage.digest]) for source, own in held if stage.digest in own]
        for _, source, left_out in sorted(found, key=lambda each: each[0]):  # complete ones first
            if _suffices(left_out, to_run):
                chosen[stage.digest] = source
                break
    return chosen


def _suffices(left_out: Collection[str], readers: Sequence[Stage]) -> bool:
    """An evaluation reads the agent, and other stages may read anything but pictures."""
    if all(reader.kind == EVALUATE.name for reader in readers):
        return not readers or AGENT not in left_out
    return not set(left_out) - {PICTURES}


def reuse_stages(store: Store, stages: Sequence[Stage], sources: Sequence[Path]) -> dict[Path, int]:
    """Adds to a store what can be reused; returns the number of stages taken from each source."""
    chosen = choose_sources(stages, sources, store.stages())
    taken = {source: [digest for digest, own in chosen.items() if own == source] for source in sources}
    for source, digests in taken.items():
        take_stages(store, digests, source)
    return {source: len(digests) for source, digests in taken.items()}
