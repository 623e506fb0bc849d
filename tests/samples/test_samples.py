"""What every released version wrote opens, resumes and reports with this one."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import run_plan
from make_samples import OVERRIDES, checksums, execute, options, plan_all, plan_run

import reaper
from reaper.cli.main import main
from reaper.config.overrides import differences
from reaper.errors import UserError
from reaper.learning.found_memory import check_memory
from reaper.progress import PhaseProgress
from reaper.results.runs import read_results
from reaper.retention import CompressedRehearsal
from reaper.storage.pack import import_pack
from reaper.storage.store import Store
from reaper.storage.verify import verify
from reaper.study.chains import build_chain, unique_stages
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.plan import plan
from reaper.tasks.sequence import find_sequence

SAMPLES = Path(__file__).parent
VERSIONS = sorted(path.name for path in SAMPLES.glob("[0-9]*"))


# What makes the results of an earlier version. Until 0.2 all environments were reset at every evaluation, and one
# episode was enough for a window of the best weights.
UNTIL_0_2 = {"training.reset-interval": 15, "training.best-episodes": 1}
BEFORE = {"0.1": UNTIL_0_2, "0.2": UNTIL_0_2}


def plan_as_in(version):
    chosen = options("catch")
    return plan(["RePR"], replace(chosen, overrides={**chosen.overrides, **BEFORE.get(version, {})}))


def imported(version, name, out):
    import_pack(SAMPLES / version / name, out, check_memory)
    return Store.open(out)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_that_was_stopped_resumes_and_reports(version, tmp_path):
    store, study, done = imported(version, "half.reaper", tmp_path / "run"), plan_run(), []
    assert len(list(store.folder.glob("unfinished/*/[0-9]*"))) == 1
    assert verify(store.folder) == []

    def listener(stage, event):
        if isinstance(event, PhaseProgress) and event.total and event.phase != "replay actions":
            done.append(event.done)

    run_plan(study, store.folder, listener)
    assert done[0] > 0  # not from the beginning
    native = checksums(execute(study, tmp_path / "native").folder)
    as_then = checksums(execute(plan_as_in(version), tmp_path / "as then").folder)
    if as_then == json.loads((SAMPLES / version / "expected.json").read_text()):  # else this CPU rounds differently
        assert checksums(store.folder) == native  # the checkpoint is older than the first difference
    assert checksums(store.folder).keys() == native.keys()
    assert verify(store.folder) == []
    assert main(["report", str(store.folder), "--no-videos"]) == 0
    assert main(["results", str(store.folder), "--csv"]) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_every_condition_and_experiment_keeps_its_stages_and_scores(version, tmp_path):
    store, studies = imported(version, "study.reaper", tmp_path / "run"), plan_all()
    chains = {chain.name: as_before(chain, study) for study in studies for chain in study.chains}.values()
    digests = {stage.digest for study in studies for stage in study.analysis_stages}
    assert digests | {stage.digest for stage in unique_stages(list(chains))} == set(store.stages())
    for chain in chains:
        assert same(store.run(chain.name)) == same(chain.record())
    for record in (record for study in studies for record in study.experiments):
        assert replace(store.experiment(record.name), command="") == replace(record, command="")
    assert all(problem.harmless for problem in verify(store.folder))  # its weights were left out
    assert all(result.finished for result in read_results(store))


def as_before(chain, study):
    """The chain as versions before 0.3 planned it. Those applied a condition's variant to the user's values, which it
    could replace; in all other conditions the user's values hold now as they did then. They had one codec for items.
    And they evaluated the first agent of every condition on all tasks; now the conditions share an evaluation."""
    before = chain
    if isinstance(chain.condition.retention, CompressedRehearsal):
        codec = {"compressed-rehearsal.codec": "zlib"}
        sequence = find_sequence(chain.sequence.name)
        before = build_chain(chain.condition, sequence, chain.seed, study.config.settings, user_values=codec)
        assert differences(before.settings, chain.settings).keys() == {"compressed-rehearsal.codec"}
        before.command = chain.command
    if chain.condition.variant != "main":
        sequence = find_sequence(chain.sequence.name)
        before = build_chain(chain.condition, sequence, chain.seed, study.config.settings)
        assert {"long-term.agent-steps"} <= differences(before.settings, chain.settings).keys() <= OVERRIDES.keys()
        before.command = chain.command
    if before.evaluations:
        before.evaluations[0] = EVALUATE.stage(before.inputs, "", before.sequence.names, before.memories[0])
    return before


def same(record):
    """A record without prose and titles (conditions may share a stage) and with its command's words in order."""
    words = sorted(word for word in record.command.split() if word not in ("--seeds", "0"))
    stages = {digest: replace(entry, title="") for digest, entry in record.stages.items()}
    return replace(record, command=" ".join(words), condition={**record.condition, "about": ""}, stages=stages)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_memory_plays(version, tmp_path):
    import_pack(SAMPLES / version / "memory.reaper", tmp_path / "memory", check_memory)
    for source in (SAMPLES / version / "memory.reaper", tmp_path / "memory"):
        agent = reaper.load(source)
        assert agent.tasks == ("catch",)
        action, _ = agent.predict(np.zeros(agent.observation.shape, np.uint8))
        assert 0 <= action < agent.context.num_actions


# -- folders that version 0.1 left on a disk, which `reaper convert` converts


def unzipped(name, folder):
    with zipfile.ZipFile(SAMPLES / "0.1" / name) as pack:
        pack.extractall(folder)
    (folder / "reaper-pack.json").unlink()
    return folder


def test_a_folder_of_an_earlier_version_is_converted_on_request(tmp_path, capsys):
    old, new = unzipped("half.reaper", tmp_path / "old"), tmp_path / "new"
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    for words in (["report", old], ["verify", old], ["export", old, tmp_path / "x"], ["run", "RePR", "--out", old]):
        assert main([str(word) for word in words]) == 2
        assert f"`reaper convert {old} NEW`" in capsys.readouterr().err
    assert main(["convert", str(old), str(new)]) == 0
    assert "1 runs, 0 finished stages and 1 checkpoints" in capsys.readouterr().out
    packed = imported("0.1", "half.reaper", tmp_path / "packed").folder
    for part in ("runs", "unfinished", "reaper.json"):
        for path in (new / part).rglob("*") if (new / part).is_dir() else [new / part]:
            if path.is_file():
                assert path.read_bytes() == (packed / path.relative_to(new)).read_bytes()
    shutil.rmtree(old / "locks", ignore_errors=True)
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert main(["convert", str(old), str(new)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["convert", str(new), str(tmp_path / "again")]) == 2
    assert "nothing to convert" in capsys.readouterr().err


def test_a_memory_of_an_earlier_version_is_converted_on_request(tmp_path, capsys):
    old, new = unzipped("memory.reaper", tmp_path / "old"), tmp_path / "new"
    with pytest.raises(UserError, match=r"`reaper convert .* NEW`"):
        reaper.load(old)
    assert main(["convert", str(old), str(new)]) == 0
    assert reaper.load(new).tasks == ("catch",)


def test_damaged_stages_of_an_earlier_version_are_left_out(tmp_path, capsys):
    old, new = unzipped("study.reaper", tmp_path / "old"), tmp_path / "new"
    rows = next(old.glob("stages/*/rows.json"))
    rows.write_text("[]")
    count = len(list((old / "stages").iterdir()))
    assert main(["convert", str(old), str(new)]) == 0
    assert f"{count - 1} finished stages and 0 checkpoints; 1 damaged stages were left out" in capsys.readouterr().out
    assert len(Store.open(new).stages()) == count - 1


def test_damaged_records_of_an_earlier_version_are_one_line(tmp_path, capsys):
    old = unzipped("half.reaper", tmp_path / "old")
    record = next((old / "runs").glob("*.json"))
    record.write_text(record.read_text().replace('"catch"', '"dodge"'))
    assert main(["convert", str(old), str(tmp_path / "new")]) == 2
    assert "does not match its checksum" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
