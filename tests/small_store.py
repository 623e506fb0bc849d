"""Stores of stages without any training, for tests of everything that is done with their files."""

from pathlib import Path

import torch

from reaper.storage.manifests import Provenance, StageManifest
from reaper.storage.records import RunRecord, StageEntry, StoreHeader
from reaper.storage.store import Store

HEADER = StoreHeader("1", "arcade", 1.0, {"a": {"b": 1}})
TEACHER = StageManifest({"kind": "learn", "parents": {}}, "learn catch")
MEMORY = StageManifest({"kind": "consolidate", "parents": {"teacher": TEACHER.digest}}, "consolidate catch")
EVALUATION = StageManifest({"kind": "evaluate", "parents": {"subject": MEMORY.digest}}, "evaluate catch")
STAGES = (TEACHER, MEMORY, EVALUATION)
RUN = RunRecord(
    name="RePR--catch--seed-0",
    condition={"name": "RePR"},
    sequence="catch",
    tasks=("catch",),
    titles=("Catch",),
    num_actions=6,
    seed=0,
    command="reaper run RePR --tasks catch",
    settings={},
    teachers=(TEACHER.digest,),
    generators=(),
    memories=(MEMORY.digest,),
    evaluations=(EVALUATION.digest,),
    singles=(),
    random=None,
    stages={each.digest: StageEntry.of(each.title, each.parents) for each in STAGES},
)


def make(folder: Path, stages=STAGES, runs=(RUN,)) -> Store:
    store = Store.open_for(folder, HEADER)
    for record in runs:
        store.write_run(record)
    for stage in stages:
        memory = {"memory": {"tasks": ["catch"], "bytes": 8}} if stage is MEMORY else {}
        tensors = {"agent": {"w": torch.arange(2.0)}}
        store.write_stage(stage, tensors, {"rows": [stage.title], **memory}, Provenance(seconds=2.0))
    store.close()
    return store


def spoil(store: Store, stage: StageManifest, name: str = "rows.json") -> Path:
    path = store.path_of(stage.digest) / name
    path.write_bytes(path.read_bytes()[:-1])
    return path
