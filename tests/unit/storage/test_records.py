"""Records: what is written is read back, and anything else is refused in one line."""

import json
from pathlib import Path

import pytest

from reaper.errors import DamagedArtefact
from reaper.storage.manifests import FileList, MemoryManifest, Provenance, StageManifest
from reaper.storage.records import (
    AnalysisStageEntry,
    ContinuedFrom,
    ExperimentRecord,
    RunRecord,
    StageEntry,
    StoreHeader,
)

PATH = Path("somewhere.json")
A, B, C = "a" * 20, "b" * 20, "c" * 20

RUN = RunRecord(
    name="RePR--two--seed-0",
    condition={"name": "RePR"},
    sequence="two",
    tasks=("catch", "dodge"),
    titles=("Catch", "Dodge"),
    num_actions=6,
    seed=0,
    command="reaper run RePR",
    settings={"training": {"num_envs": 4}, "methods": {"gan": {"steps": 8}}},
    teachers=(A, B),
    generators=(),
    memories=(B, C),
    evaluations=(A, C),
    singles=(A, A),
    random=None,
    stages={A: StageEntry("learn catch", ()), B: StageEntry("consolidate catch", (A,))},
    continued=ContinuedFrom("pretrained:x", "contents", 1),
)
EXPERIMENT = ExperimentRecord(
    name="overlap--two--seed-0",
    experiment="overlap",
    sequence="two",
    tasks=("catch",),
    titles=("Catch",),
    seed=0,
    command="reaper experiment overlap",
    runs=(RUN.name,),
    stages=(AnalysisStageEntry(digest=A, title="fisher", parents=(B, C), role="fisher", about={"condition": "RePR"}),),
)
HEADER = StoreHeader("0.2.0", "arcade", 0.5, {"training": {"num_envs": 4}})
MANIFEST = StageManifest({"kind": "evaluate", "parents": {"subject": A}}, "evaluate")
MEMORY = MemoryManifest(
    spec={"kind": "consolidate"},
    title="consolidate",
    precision="half",
    stage=A,
    condition={"name": "RePR"},
    sequence="two",
    titles=("Catch",),
)
PROVENANCE = Provenance(seconds=1.5, device="cpu", threads=2, checkpoints={"written": 3}, digest=A)
RECORDS = (RUN, EXPERIMENT, HEADER, MANIFEST, MEMORY, PROVENANCE)


def as_read(record):
    return json.loads(json.dumps(record.to_json()))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_written_is_read_back(record):
    assert type(record).from_json(as_read(record), PATH) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_any_other_value_is_damage(record):
    kind, written = type(record), as_read(record)
    for value in (None, 3, [], "text", {"name": []}):
        if kind is not Provenance or not isinstance(value, dict):  # of which every field is optional
            with pytest.raises(DamagedArtefact, match=f"is not {kind.what}"):
                kind.from_json(value, PATH)
    for name in written.keys() - {"format", "about"}:
        for value in (object, [[]], -1.5):
            if value != written[name] and name not in ("fraction", "seconds"):
                with pytest.raises(DamagedArtefact):
                    kind.from_json({**written, name: value}, PATH)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "PR--two--seed-0"},
        {"titles": ["Catch"]},
        {"memories": [A]},
        {"memories": ["../../elsewhere", A]},
        {"random": "x"},
        {"stages": {"../up": {"title": "", "parents": []}}},
        {"continued": {"source": "x", "contents": "y", "tasks": 2}},
    ],
    ids=str,
)
def test_a_run_that_contradicts_itself_is_damage(changes):
    with pytest.raises(DamagedArtefact, match="is not the record of a run"):
        RunRecord.from_json({**as_read(RUN), **changes}, PATH)


def test_a_manifest_of_another_digest_is_damage():
    with pytest.raises(DamagedArtefact):
        StageManifest.from_json({**as_read(MANIFEST), "digest": A}, PATH)


@pytest.mark.parametrize("name", ["../up.json", "a.py", "/tmp/a.json", "a/b.json"])
def test_a_manifest_lists_plain_file_names_only(name):
    entry = {"bytes": 1, "sha256": "0" * 64}
    assert FileList.from_json({"files": {"rows.json": entry}}, PATH).files["rows.json"].bytes == 1
    with pytest.raises(DamagedArtefact):
        FileList.from_json({"files": {name: entry}}, PATH)
    with pytest.raises(DamagedArtefact):
        FileList.from_json({"files": {"rows.json": {**entry, "bytes": -1}}}, PATH)


def test_the_provenance_of_a_newer_version_opens():
    assert Provenance.from_json({**as_read(PROVENANCE), "host": "elsewhere"}, PATH) == PROVENANCE
    assert Provenance().to_json() == {}


def test_parents_are_in_the_order_of_their_roles():
    assert StageEntry.of("x", {"teacher": A, "memory": B}) == StageEntry.of("x", {"memory": B, "teacher": A})
