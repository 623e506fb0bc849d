"""A campaign in slices: what is transferred, and that the results equal those of one uninterrupted run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY, plan_tiny, run_plan, run_tiny
from handmade import KEEPS, make_store

from reaper.errors import UserError
from reaper.learning.found_memory import check_memory
from reaper.results.runs import read_results
from reaper.results.studies import source_files, write_sources
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.pack import export_stages, import_pack
from reaper.storage.store import Store
from reaper.storage.verify import verify
from reaper.study.kinds.consolidate import read_complete_memory

QUICK = {"rehearsal.capacity": 3000, "evaluation.interval": 10_000, "evaluation.episodes": 1}
BENCHMARKS = str(Path(__file__).parent.parent.parent / "benchmarks")


@pytest.fixture
def campaign(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import campaign

    return campaign


def as_arguments(settings):
    return [argument for name, value in settings.items() for argument in (f"--{name}", str(value))]


def one_slice(campaign, folder, *options, wipe=True):
    """Runs one slice; unless `wipe` is False, its machine has nothing but what was carried."""
    for name in ("carry", "back", *(["machine"] if wipe else [])):
        shutil.rmtree(folder / name, ignore_errors=True)
    assert campaign.main(["send", str(folder / "home"), str(folder / "carry")]) == 0
    command = [
        "slice",
        str(folder / "carry"),
        str(folder / "back"),
        "--work",
        str(folder / "machine"),
        "--device",
        "cpu",
    ]
    rates = {"steps-per-second": 5000, "generator-steps-per-second": 500, "evaluation-seconds": 0.1, "start-seconds": 0}
    code = campaign.main([*command, *as_arguments(rates), "--reserve", "0", *options])
    assert campaign.main(["receive", str(folder / "home"), str(folder / "back")]) == 0
    return code


@pytest.mark.long
def test_evaluations_can_be_left_for_home(campaign, tmp_path):
    """A slice runs all stages but evaluations; the same study at home runs only those."""
    settings = {**TINY, **QUICK}
    begin = [
        "begin",
        str(tmp_path / "home"),
        "no-reh",
        "--tasks",
        "catch,dodge",
        "--fraction",
        "1",
        *as_arguments(settings),
    ]
    assert campaign.main(begin) == 0
    assert one_slice(campaign, tmp_path, "--seconds", "100", "--skip-evaluations") == 0
    home = tmp_path / "home" / "store"
    kinds = [Store.open(home).stage(digest).manifest.kind for digest in Store.open(home).stages()]
    assert sorted(kinds) == ["consolidate", "consolidate", "short-term", "short-term"]
    study, ran = plan_tiny(["no-reh"], "catch,dodge", overrides=settings), []
    run_plan(study, home, lambda stage, event: ran.append(stage.kind) if event.name == "started" else None)
    assert set(ran) == {"evaluate"}
    assert all(result.finished for result in read_results(Store.open(home)))


@pytest.mark.long
def test_slices_give_the_results_of_one_run(campaign, tmp_path, monkeypatch):
    """Room for the memory of RePR and a teacher or two per slice; the items of reh are too large to transfer."""
    conditions, tasks, settings = ["RePR", "reh", "no-reh"], "catch,dodge", {**TINY, **QUICK}
    whole = run_tiny(tmp_path / "whole", conditions, tasks, overrides=settings)
    begin = ["begin", str(tmp_path / "home"), *conditions, "--tasks", tasks, "--fraction", "1", *as_arguments(settings)]
    assert campaign.main(begin) == 0
    monkeypatch.setattr(campaign, "ROOM", 1_700_000)
    codes = [75]
    while codes[-1] == 75 and len(codes) < 12:
        codes.append(one_slice(campaign, tmp_path, "--seconds", "100"))
    assert codes[-1] == 0
    assert len(codes) > 3
    home = Store.open(tmp_path / "home" / "store")
    assert home.stages() == whole.stages()
    assert all(home.stage(d).listed == whole.stage(d).listed for d in whole.stages())  # bit-identical on a CPU
    results = read_results(home)
    assert all(result.finished for result in results)
    rehearsing = next(result for result in results if result.name == "reh")
    thinned = {digest for digest in home.stages() if home.stage(digest).left_out}
    assert thinned == set(rehearsing.record.memories)
    assert rehearsing.memory_bytes == next(r.memory_bytes for r in read_results(whole) if r.name == "reh")
    last = home.stage(rehearsing.record.memories[-1])
    assert last.tensors("agent")
    with pytest.raises(UserError, match="was left out"):
        read_complete_memory(last)


@pytest.mark.long
def test_a_chain_that_cannot_be_transferred_starts_only_if_all_of_it_fits(campaign, tmp_path):
    from campaign_plan import Slice, StageTimes, in_order

    study = plan_tiny(["reh"], "catch,dodge", overrides=QUICK)
    store = run_tiny(tmp_path / "run", ["no-reh"], "catch,dodge", overrides=QUICK)  # has the teachers
    times = StageTimes(10.0, 10.0, 1.0, 0.0)
    slice_ = Slice(in_order(study.chains), store, times, room=1_700_000, before=frozenset(), margin=1.0)
    first = slice_.choose(1e9)[0]
    assert first.title.startswith("reh: consolidate catch")
    alone, chain = slice_.times.seconds(first), slice_.seconds(first)
    assert chain == sum(map(slice_.times.seconds, slice_.left()))
    assert slice_.choose(chain) == [first]
    assert slice_.choose(chain - 0.1) == []
    assert alone < chain
    assert replace(slice_, persistent=True).choose(1.0) == [first]


def test_a_folder_that_stays_is_not_limited_by_what_can_be_brought_back(campaign, tmp_path):
    from campaign_plan import Slice, StageTimes, in_order

    study = plan_tiny(["no-reh"], "catch,dodge", overrides=QUICK)
    store = Store.open_for(tmp_path / "run", study.header)
    slice_ = Slice(in_order(study.chains), store, StageTimes(10.0, 10.0, 1.0, 0.0), room=1, before=frozenset())
    assert slice_.choose(1e9) == []
    assert replace(slice_, persistent=True).choose(1e9) == slice_.left()[:1]


def test_a_slice_can_distil_the_first_teacher(campaign, tmp_path):
    """A teacher with a network of its own travels with the states that the stage `distil` stores."""
    settings = {**TINY, **QUICK, "short-term.network": "residual", "short-term.agent-steps": 120}
    begin = ["begin", str(tmp_path / "home"), "no-reh", "--tasks", "catch", "--fraction", "1", *as_arguments(settings)]
    assert campaign.main(begin) == 0
    home = tmp_path / "home" / "store"
    run_tiny(tmp_path / "teacher", ["single"], "catch", overrides=settings)
    store = Store.open(tmp_path / "teacher")
    for digest in store.stages():
        shutil.copytree(store.folder / "stages" / digest, home / "stages" / digest)
    assert one_slice(campaign, tmp_path, "--seconds", "100", "--skip-evaluations") == 0
    kinds = [Store.open(home).stage(digest).manifest.kind for digest in Store.open(home).stages()]
    assert sorted(set(kinds)) == ["consolidate", "distil", "evaluate", "short-term"]


def test_a_stage_that_cannot_be_finished_is_not_started(campaign, tmp_path, capsys):
    begin = ["begin", str(tmp_path / "home"), "no-reh", "--tasks", "catch", "--fraction", "1", *as_arguments(TINY)]
    assert campaign.main(begin) == 0
    assert one_slice(campaign, tmp_path, "--seconds", "60", "--steps-per-second", "1") == 75  # but random play fits
    assert one_slice(campaign, tmp_path, "--seconds", "60", "--steps-per-second", "1") == 2
    assert "no unfinished stage fits" in capsys.readouterr().err
    assert len(Store.open(tmp_path / "home" / "store").stages()) == 1


def test_in_a_persistent_folder_a_stage_resumes_from_its_checkpoint(campaign, tmp_path, monkeypatch):
    whole = run_tiny(tmp_path / "whole", ["no-reh"], "catch", overrides=QUICK)
    begin = ["begin", str(tmp_path / "home"), "no-reh", "--tasks", "catch", "--fraction", "1"]
    assert campaign.main([*begin, *as_arguments({**TINY, **QUICK})]) == 0
    written = CheckpointDir.write

    def write_and_stop(self, tensors, others):
        written(self, tensors, others)
        os.kill(os.getpid(), signal.SIGTERM)  # as the slice does when its time is up

    options = ("--persistent", "--seconds", "100", "--steps-per-second", "0.1", "--checkpoint-every", "80")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointDir, "write", write_and_stop)
        assert one_slice(campaign, tmp_path, *options) == 75
    assert Store.open(tmp_path / "machine").unfinished_stages() == [whole.run(whole.run_names()[0]).teachers[0]]
    assert Store.open(tmp_path / "home" / "store").stages() == []  # a checkpoint is not brought back
    assert one_slice(campaign, tmp_path, *options, wipe=False) == 0
    home = Store.open(tmp_path / "home" / "store")
    assert {d: home.stage(d).files for d in home.stages()} == {d: whole.stage(d).files for d in whole.stages()}


def test_finished_stages_of_a_long_run_are_collected_while_it_continues(campaign, tmp_path, monkeypatch):
    """Several times, with room for some stages each time; no stage is collected twice."""
    conditions, tasks, settings = ["RePR", "no-reh"], "catch,dodge", {**TINY, **QUICK}
    begin = ["begin", str(tmp_path / "home"), *conditions, "--tasks", tasks, "--fraction", "1", *as_arguments(settings)]
    assert campaign.main(begin) == 0
    folders = [str(tmp_path / name) for name in ("home", "carry", "back")]
    there = ["--work", str(tmp_path / "there")]
    assert campaign.main(["send", *folders[:2]]) == 0
    assert campaign.main(["unpack", folders[1], *there]) == 0
    whole = run_tiny(tmp_path / "there", conditions, tasks, overrides=settings)
    monkeypatch.setattr(campaign, "ROOM", 1_700_000)
    seen = []
    for _ in range(9):
        assert campaign.main(["collect", *folders[1:], *there]) == 0
        assert campaign.main(["receive", folders[0], folders[2]]) == 0
        seen.append(len(Store.open(tmp_path / "home" / "store").stages()))
        if seen[-1] == len(whole.stages()):
            break
    home = Store.open(tmp_path / "home" / "store")
    assert home.stages() == whole.stages()
    assert seen == sorted(set(seen))  # something new each time
    assert len(seen) > 1
    assert all(home.stage(digest).left_out == {} for digest in home.stages())


@pytest.mark.long
def test_importing_all_files_completes_a_thinned_stage(tiny_run, tmp_path):
    store = Store.open(tiny_run)
    run = next(run for run in store.runs() if run.condition_name == "RePR")
    digest = run.memories[-1]
    names = store.stage(digest).files.keys()
    export_stages(store, tmp_path / "thin", {digest: {name for name in names if name.endswith(".json")}})
    export_stages(store, tmp_path / "whole", {digest: names})
    assert (tmp_path / "thin").stat().st_size < (tmp_path / "whole").stat().st_size / 10
    import_pack(tmp_path / "thin", tmp_path / "out", check_memory)
    thinned = Store.open(tmp_path / "out").stage(digest)
    assert {"agent.safetensors", "retained.safetensors"} <= thinned.left_out.keys()
    with pytest.raises(UserError, match="was left out when its run was packed"):
        thinned.tensors("agent")
    problems = [problem for problem in verify(tmp_path / "out") if digest in str(problem.path)]
    assert [problem.harmless for problem in problems] == [True]
    assert "lacks agent.safetensors" in problems[0].what
    assert thinned.document("memory") == store.stage(digest).document("memory")
    import_pack(tmp_path / "whole", tmp_path / "out", check_memory)
    assert Store.open(tmp_path / "out").stage(digest).left_out == {}
    import_pack(tmp_path / "thin", tmp_path / "out", check_memory)  # what is there is left alone
    assert Store.open(tmp_path / "out").stage(digest).tensors("agent")


def test_the_queue_tells_what_is_done_from_summaries_and_folders(campaign, tmp_path, capfd):
    data, entry = tmp_path / "data", {"study": "run", "sequence": "catch,dodge,shooter", "preset": "arcade"}
    entry |= {"fraction": 1.0, "seeds": [3, 4], "command": "reaper run RePR", "machine": "one core", "minutes": 5}
    entry |= {"basis": "a guess", "conditions": ["RePR"]}
    store = make_store(tmp_path / "out", {"RePR": KEEPS}, seeds=(3,))
    data.mkdir()
    (data / "queue.json").write_text(json.dumps({"format": 1, "entries": [entry]}))
    assert campaign.main(["queue", str(data)]) == 0
    assert "    reaper run RePR --seeds 3 4\n    predicted 5 min per seed: a guess\n" in capfd.readouterr().out
    assert campaign.main(["queue", str(data), "--stores", str(store.folder)]) == 0
    # Three teachers, memories, evaluations and singles of a minute each; the first evaluation is one of these.
    expected = "[1 of 2 seeds] run on catch,dodge,shooter, preset arcade, fraction 1, took 12 min, about 12 min left"
    assert expected in capfd.readouterr().out
    write_sources(data, source_files(store, "mine", ""))
    assert campaign.main(["queue", str(data)]) == 0
    assert "    reaper run RePR --seeds 4\n" in capfd.readouterr().out


def test_a_reader_that_closes_the_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, f"{BENCHMARKS}/campaign.py", "queue", f"{BENCHMARKS}/../docs/results/data"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
