"""A run moves as one file and resumes elsewhere with the same bytes; a long-term memory moves without its run."""

import shutil
import threading
import time
import zipfile
from dataclasses import replace

import numpy as np
import torch
from conftest import plan_tiny, run_args, run_plan, run_tiny
from damaging import command, contents, flipped, refused, results, seeded

import reaper
from reaper.cli.main import main
from reaper.config.presets import PAPER
from reaper.config.sparse_json import to_json
from reaper.context import Context, state_tensors
from reaper.generators import generator_for
from reaper.learning.found_memory import check_memory
from reaper.progress import StageFinished, StageStarted
from reaper.storage.manifests import Provenance
from reaper.storage.pack import export_run, import_pack
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.storage.verify import verify
from reaper.study.chains import build_chain
from reaper.tasks.sequence import find_sequence


def test_a_run_is_moved_whole(two_seeds, tmp_path):
    pack, again = tmp_path / "run.reaper", tmp_path / "again.reaper"
    assert main(["export", str(two_seeds), str(pack)]) == 0
    assert main(["import", str(pack), str(tmp_path / "here" / "out")]) == 0
    wanted = {name: data for name, data in contents(two_seeds).items() if not name.startswith("report/")}
    assert contents(tmp_path / "here" / "out") == wanted
    assert main(["export", str(tmp_path / "here" / "out"), str(again)]) == 0
    assert pack.read_bytes() == again.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.reaper", "here", "run.reaper"]


def test_a_half_finished_run_resumes_elsewhere(half_finished, tmp_path):
    assert main(["export", str(half_finished), str(tmp_path / "half.reaper")]) == 0
    assert main(["import", str(tmp_path / "half.reaper"), str(tmp_path / "there")]) == 0
    assert len(list((tmp_path / "there").glob("unfinished/*/[0-9]*"))) == 2
    for out in (tmp_path / "there", shutil.copytree(half_finished, tmp_path / "here")):
        run_tiny(out, ["RePR"], "catch,dodge", checkpoint_every="24")
    assert results(tmp_path / "there") == results(tmp_path / "here")


def test_a_pack_is_merged_into_a_run_with_the_same_settings(two_seeds, tmp_path, capfd):
    export_run(two_seeds, tmp_path / "run.reaper")
    out = tmp_path / "out"
    run_tiny(out, ["no-reh"], "catch")
    before = contents(out)
    assert main(["import", str(tmp_path / "run.reaper"), str(out)]) == 0
    assert contents(out) == contents(two_seeds) | before  # the teacher that both have stays as it is
    assert not verify(out)

    shared = Store.open(out).runs()[0].teachers[0]
    values = out / "stages" / shared / "values.json"
    manifest = out / "stages" / shared / "manifest.json"
    values.write_text("{}")
    update_manifest(manifest, values)
    before = contents(out)
    line = refused(capfd, 2, "import", tmp_path / "run.reaper", out)
    assert shared in line
    assert "different results" in line
    assert contents(out) == before


def update_manifest(manifest, path):
    """Updates the manifest of a changed file."""
    from reaper.storage.files import checksummed, read_checksummed, sha256

    about = read_checksummed(manifest)
    about["files"][path.name] = {"sha256": sha256(path), "bytes": path.stat().st_size}
    manifest.write_bytes(checksummed(about))


def test_other_settings_and_other_folders_are_left_alone(two_seeds, tmp_path, capfd):
    export_run(two_seeds, tmp_path / "run.reaper")
    Store.open_for(tmp_path / "other", replace(Store.open(two_seeds).header, fraction=0.5)).close()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear reader")
    before = contents(tmp_path)
    line = refused(capfd, 2, "import", tmp_path / "run.reaper", tmp_path / "other")
    assert "was made with other settings (fraction was 0.5, now 1.0)" in line.replace("fraction: ", "")
    assert "not a run of reaper" in refused(capfd, 2, "import", tmp_path / "run.reaper", tmp_path / "letters")
    assert contents(tmp_path) == before


def test_a_folder_that_is_being_written_is_refused(two_seeds, tmp_path, capfd):
    export_run(two_seeds, tmp_path / "run.reaper")
    holder = Store.open_for(tmp_path / "out", StoreHeader("1", "arcade", 1.0, {}))
    assert "another run is writing" in refused(capfd, 2, "import", tmp_path / "run.reaper", tmp_path / "out")
    assert "another run is writing" in refused(capfd, 2, "verify", tmp_path / "out", "--set-aside")
    holder.close()
    assert main(["verify", str(tmp_path / "out"), "--set-aside"]) == 0


def test_a_file_is_overwritten_only_on_request(two_seeds, tmp_path, capfd):
    (tmp_path / "mine").write_text("mine")
    assert "--overwrite" in refused(capfd, 2, "export", two_seeds, tmp_path / "mine")
    assert "already exists" in refused(capfd, 2, "export", two_seeds, tmp_path, "--overwrite")
    assert (tmp_path / "mine").read_text() == "mine"
    assert main(["export", str(two_seeds), str(tmp_path / "mine"), "--overwrite"]) == 0
    assert zipfile.is_zipfile(tmp_path / "mine")
    assert "goes with --what weights" in refused(capfd, 2, "export", two_seeds, tmp_path / "x", "--half")
    assert "goes with --what weights" in refused(capfd, 2, "export", two_seeds, tmp_path / "x", "--seed", "1")


def test_damage_is_not_exported(two_seeds, tmp_path, capfd):
    out = tmp_path / "out"
    shutil.copytree(two_seeds, out)
    digest = Store.open(out).runs()[0].teachers[0]
    flipped(out / "stages" / digest / "agent.safetensors", None, seeded("export"))
    assert "does not match its checksum" in refused(capfd, 2, "export", out, tmp_path / "run.reaper")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_export_while_a_run_writes(tmp_path):
    """Every pack is complete, whenever it was written."""
    out, packs = tmp_path / "out", []

    def wait_for_a_pack(stage, event):  # so that a busy machine has packs of every moment, too
        enough = len(packs) + 2  # one may be half written, the next begins after this event
        while isinstance(event, StageStarted | StageFinished) and len(packs) < enough:
            time.sleep(0.01)

    study = plan_tiny(["no-reh"], "catch", checkpoint_every="24")
    running = threading.Thread(target=run_plan, args=(study, out, wait_for_a_pack), daemon=True)
    running.start()
    while running.is_alive():
        if (out / "unfinished").exists():
            export_run(out, tmp_path / f"{len(packs)}.reaper")
            packs.append(tmp_path / f"{len(packs)}.reaper")
        time.sleep(0.02)
    held = set()
    for number, pack in enumerate(packs):
        import_pack(pack, tmp_path / f"in-{number}", check_memory)
        assert not [problem for problem in verify(tmp_path / f"in-{number}") if problem.damaged]
        held.add((len(list(tmp_path.glob(f"in-{number}/stages/*"))), bool(list(tmp_path.glob(f"in-{number}/un*/*")))))
    assert len({stages for stages, _ in held}) > 2  # packs of different times ...
    assert {True, False} == {unfinished for _, unfinished in held}  # ... within stages and between them


# -- one long-term memory


def test_a_memory_is_moved_and_plays_the_same(two_seeds, tmp_path):
    pack, folder = tmp_path / "memory.reaper", tmp_path / "memory"
    assert main(["export", str(two_seeds), str(pack), "--what", "weights", "--condition", "DGDMN", "--seed", "1"]) == 0
    assert main(["import", str(pack), str(folder)]) == 0
    names = {"manifest.json", "provenance.json", "memory.json", "agent.safetensors", "retained.safetensors"}
    assert {path.name for path in folder.iterdir()} == names
    original = reaper.load(two_seeds, condition="DGDMN", seed=1)
    for moved in (reaper.load(pack), reaper.load(folder)):
        assert moved.tasks == ("catch",)
        for name, tensor in (*original.memory.agent.items(), *original.memory.retained.items()):
            assert torch.equal(tensor, (moved.memory.agent | moved.memory.retained)[name])
    assert main(["play", str(pack), "--task", "catch", "--episodes", "1"]) == 0


def test_half_precision_is_marked_and_never_taken_for_a_stage(two_seeds, tmp_path, capfd):
    pack, folder = tmp_path / "memory.reaper", tmp_path / "memory"
    words = ["--what", "weights", "--condition", "DGDMN", "--half"]
    assert main(["export", str(two_seeds), str(pack), *words]) == 0
    assert main(["import", str(pack), str(folder)]) == 0
    moved, original = reaper.load(folder), reaper.load(two_seeds, condition="DGDMN")
    for name, tensor in (moved.memory.agent | moved.memory.retained).items():
        exact = (original.memory.agent | original.memory.retained)[name]
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, exact.half().float())
    states = np.random.default_rng(0).integers(0, 256, (50, *moved.observation.shape), dtype=np.uint8)
    assert (moved.predict(states)[0] == original.predict(states)[0]).mean() > 0.9

    out = tmp_path / "out"
    shutil.copytree(two_seeds, out)
    digest = Store.open(out).runs()[0].memories[0]
    shutil.rmtree(out / "stages" / digest)
    shutil.copytree(folder, out / "stages" / digest)
    assert "is not the manifest of a finished stage" in refused(capfd, 2, *run_args(out, "DGDMN"))


def test_what_half_precision_cannot_hold_is_refused(two_seeds, tmp_path, capfd, monkeypatch):

    from reaper.storage import exported_memory

    def large(folder):
        memory = read(folder)
        memory.agent["values.bias"][0] = 70_000.0
        return memory

    read = exported_memory.read_memory
    monkeypatch.setattr(exported_memory, "read_memory", large)
    words = ["export", two_seeds, tmp_path / "memory.reaper", "--what", "weights", "--condition", "DGDMN"]
    assert "values.bias has values too large for half precision" in refused(capfd, 2, *words, "--half")
    assert list(tmp_path.iterdir()) == []
    assert command(capfd, *words)[0] == 0


def test_fisher_matrices_stay_in_full_precision():
    from reaper.memory.long_term import LongTermMemory
    from reaper.storage.exported_memory import to_half

    one = torch.full((2,), 1e-9)
    memory = LongTermMemory({"w": one}, ("catch",), {"fisher.w": one, "generator.w": one, "items.0": one.byte()})
    kept = {name: tensor.dtype for name, tensor in to_half(memory).retained.items()}
    assert kept == {"fisher.w": torch.float32, "generator.w": torch.float16, "items.0": torch.uint8}


def test_a_memory_of_atari_size_is_under_12_mib(tmp_path):
    """RePR's agent and generator at the paper's size; the size does not depend on the values of weights."""
    chain = build_chain(reaper.CONDITIONS["RePR"], find_sequence("ALE/Boxing-v5"), 0, PAPER)
    context, stage = Context(PAPER, 18, 0, ("size",)), chain.memories[0]
    generator = generator_for(PAPER).untrained(context)
    retained = {f"generator.{name}": tensor for name, tensor in generator.state().items()}
    store = Store.open_for(tmp_path / "out", StoreHeader("1", "paper", 1.0, to_json(PAPER)))
    tensors = {"agent": state_tensors(context.q_network()), "retained": retained}
    store.write_stage(stage.manifest, tensors, {"memory": {"tasks": ["ALE/Boxing-v5"]}}, Provenance())
    store.write_run(chain.record())
    store.close()
    words = ["export", str(tmp_path / "out"), str(tmp_path / "memory.reaper"), "--what", "weights", "--half"]
    assert main(words) == 0
    assert (tmp_path / "memory.reaper").stat().st_size < 12 << 20
    assert (
        reaper.load(tmp_path / "memory.reaper").memory.bytes > 22_000_000
    )  # in full precision again when it is loaded
