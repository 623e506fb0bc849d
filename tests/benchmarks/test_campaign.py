"""A campaign in slices: what travels, what does not, and that the end is the same as in one go."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY, plan_tiny, run_plan, run_tiny

from reaper.errors import UserError
from reaper.results.runs import read_results
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.pack import import_pack
from reaper.storage.store import Store
from reaper.storage.thinning import export_stages
from reaper.storage.verify import verify
from reaper.study.stages import read_whole

QUICK = {"rehearsal.capacity": 3000, "evaluation.interval": 10_000, "evaluation.episodes": 1}
BENCHMARKS = str(Path(__file__).parent.parent.parent / "benchmarks")


@pytest.fixture
def campaign(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import campaign

    return campaign


def words_of(settings):
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def one_slice(campaign, folder, *options, bare=True):
    """Bare at its start: nothing but what was carried."""
    for name in ("carry", "back", *(["bare"] if bare else [])):
        shutil.rmtree(folder / name, ignore_errors=True)
    assert campaign.main(["send", str(folder / "home"), str(folder / "carry")]) == 0
    words = ["slice", str(folder / "carry"), str(folder / "back"), "--work", str(folder / "bare"), "--device", "cpu"]
    rates = [
        "--frames-per-second",
        "5000",
        "--steps-per-second",
        "500",
        "--test-seconds",
        "0.1",
        "--start-seconds",
        "0",
    ]
    code = campaign.main([*words, *rates, "--reserve", "0", *options])
    assert campaign.main(["receive", str(folder / "home"), str(folder / "back")]) == 0
    return code


def test_tests_can_be_left_for_home(campaign, tmp_path):
    """A slice does all but the whole games; the same study at home finds only those to do."""
    settings = {**TINY, **QUICK}
    begin = [
        "begin",
        str(tmp_path / "home"),
        "no-reh",
        "--tasks",
        "catch,dodge",
        "--fraction",
        "1",
        *words_of(settings),
    ]
    assert campaign.main(begin) == 0
    assert one_slice(campaign, tmp_path, "--seconds", "100", "--no-tests") == 0
    home = tmp_path / "home" / "store"
    kinds = [Store.open(home).stage(digest).manifest["spec"]["kind"] for digest in Store.open(home).stages()]
    assert sorted(kinds) == ["consolidate", "consolidate", "short-term", "short-term"]
    study, ran = plan_tiny(["no-reh"], "catch,dodge", overrides=settings), []
    run_plan(study, home, lambda stage, event: ran.append(stage.kind) if event.name == "started" else None)
    assert set(ran) == {"evaluate"}
    assert all(result.finished for result in read_results(Store.open(home)))


def test_slices_end_where_one_run_ends(campaign, tmp_path, monkeypatch):
    """Room for RePR's memory and a teacher or two a slice; reh's items, by their number, for none."""
    conditions, tasks, settings = ["RePR", "reh", "no-reh"], "catch,dodge", {**TINY, **QUICK}
    whole = run_tiny(tmp_path / "whole", conditions, tasks, overrides=settings)
    begin = ["begin", str(tmp_path / "home"), *conditions, "--tasks", tasks, "--fraction", "1", *words_of(settings)]
    assert campaign.main(begin) == 0
    monkeypatch.setattr(campaign, "ROOM", 1_700_000)
    codes = [75]
    while codes[-1] == 75 and len(codes) < 12:
        codes.append(one_slice(campaign, tmp_path, "--seconds", "100"))
    assert codes[-1] == 0
    assert len(codes) > 3
    home = Store.open(tmp_path / "home" / "store")
    assert home.stages() == whole.stages()
    assert all(home.stage(d).listed == whole.stage(d).listed for d in whole.stages())  # bit for bit, on a CPU
    results = read_results(home)
    assert all(result.finished for result in results)
    rehearsing = next(result for result in results if result.name == "reh")
    thinned = {digest for digest in home.stages() if home.stage(digest).left_out}
    assert thinned == set(rehearsing.stages["memories"])
    assert rehearsing.memory_bytes == next(r.memory_bytes for r in read_results(whole) if r.name == "reh")
    last = home.stage(rehearsing.stages["memories"][-1])
    assert last.tensors("agent")
    with pytest.raises(UserError, match="was left out"):
        read_whole(last)


def test_a_chain_that_cannot_travel_is_begun_only_if_all_of_it_fits(campaign, tmp_path):
    from campaign_plan import Pace, Slice, in_order

    study = plan_tiny(["reh"], "catch,dodge", overrides=QUICK)
    store = run_tiny(tmp_path / "run", ["no-reh"], "catch,dodge", overrides=QUICK)  # has the teachers
    slice_ = Slice(in_order(study.chains), store, Pace(10.0, 10.0, 1.0, 0.0), 1_700_000, frozenset(), margin=1.0)
    first = slice_.choose(1e9)[0]
    assert first.title.startswith("reh: consolidate catch")
    alone, chain = slice_.pace.seconds(first), slice_.seconds(first)
    assert chain == sum(map(slice_.pace.seconds, slice_.left()))
    assert slice_.choose(chain) == [first]
    assert slice_.choose(chain - 0.1) == []
    assert alone < chain
    assert replace(slice_, stays=True).choose(1.0) == [first]


def test_a_stage_that_cannot_be_finished_is_not_begun(campaign, tmp_path, capsys):
    begin = ["begin", str(tmp_path / "home"), "no-reh", "--tasks", "catch", "--fraction", "1", *words_of(TINY)]
    assert campaign.main(begin) == 0
    assert one_slice(campaign, tmp_path, "--seconds", "60", "--frames-per-second", "1") == 75  # but random play fits
    assert one_slice(campaign, tmp_path, "--seconds", "60", "--frames-per-second", "1") == 2
    assert "nothing that is left fits" in capsys.readouterr().err
    assert len(Store.open(tmp_path / "home" / "store").stages()) == 1


def test_where_the_folder_stays_a_stage_goes_on_from_its_checkpoint(campaign, tmp_path, monkeypatch):
    whole = run_tiny(tmp_path / "whole", ["no-reh"], "catch", overrides=QUICK)
    begin = ["begin", str(tmp_path / "home"), "no-reh", "--tasks", "catch", "--fraction", "1"]
    assert campaign.main([*begin, *words_of({**TINY, **QUICK})]) == 0
    written = CheckpointDir.write

    def write_and_stop(self, tensors, others):
        written(self, tensors, others)
        os.kill(os.getpid(), signal.SIGTERM)  # as the slice itself does when its time is up

    options = ("--folder-stays", "--seconds", "100", "--frames-per-second", "0.1", "--checkpoint-every", "80")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointDir, "write", write_and_stop)
        assert one_slice(campaign, tmp_path, *options) == 75
    assert Store.open(tmp_path / "bare").unfinished_stages() == [whole.run(whole.run_names()[0])["teachers"][0]]
    assert Store.open(tmp_path / "home" / "store").stages() == []  # a checkpoint is not brought back
    assert one_slice(campaign, tmp_path, *options, bare=False) == 0
    home = Store.open(tmp_path / "home" / "store")
    assert {d: home.stage(d).files for d in home.stages()} == {d: whole.stage(d).files for d in whole.stages()}


def test_what_a_long_run_has_finished_is_collected_while_it_goes_on(campaign, tmp_path, monkeypatch):
    """Twice, with room for a part of it each time; what is collected once does not come again."""
    conditions, tasks, settings = ["RePR", "no-reh"], "catch,dodge", {**TINY, **QUICK}
    begin = ["begin", str(tmp_path / "home"), *conditions, "--tasks", tasks, "--fraction", "1", *words_of(settings)]
    assert campaign.main(begin) == 0
    places = [str(tmp_path / name) for name in ("home", "carry", "back")]
    there = ["--work", str(tmp_path / "there")]
    assert campaign.main(["send", *places[:2]]) == 0
    assert campaign.main(["unpack", places[1], *there]) == 0
    whole = run_tiny(tmp_path / "there", conditions, tasks, overrides=settings)
    monkeypatch.setattr(campaign, "ROOM", 1_700_000)
    seen = []
    for _ in range(9):
        assert campaign.main(["collect", *places[1:], *there]) == 0
        assert campaign.main(["receive", places[0], places[2]]) == 0
        seen.append(len(Store.open(tmp_path / "home" / "store").stages()))
        if seen[-1] == len(whole.stages()):
            break
    home = Store.open(tmp_path / "home" / "store")
    assert home.stages() == whole.stages()
    assert seen == sorted(set(seen))  # something new each time
    assert len(seen) > 1
    assert all(home.stage(digest).left_out == {} for digest in home.stages())


def test_a_thinned_stage_is_made_whole_by_a_whole_one(tiny_run, tmp_path):
    store = Store.open(tiny_run)
    run = next(run for run in store.runs() if run["condition"]["name"] == "RePR")
    digest = run["memories"][-1]
    names = store.stage(digest).files.keys()
    export_stages(store, tmp_path / "thin", {digest: {name for name in names if name.endswith(".json")}})
    export_stages(store, tmp_path / "whole", {digest: names})
    assert (tmp_path / "thin").stat().st_size < (tmp_path / "whole").stat().st_size / 10
    import_pack(tmp_path / "thin", tmp_path / "out")
    thinned = Store.open(tmp_path / "out").stage(digest)
    assert {"agent.safetensors", "retained.safetensors"} <= thinned.left_out.keys()
    with pytest.raises(UserError, match="was left out when its run was packed"):
        thinned.tensors("agent")
    problems = [problem for problem in verify(tmp_path / "out") if digest in str(problem.path)]
    assert [problem.harmless for problem in problems] == [True]
    assert "without agent.safetensors" in problems[0].what
    assert thinned.document("memory") == store.stage(digest).document("memory")
    import_pack(tmp_path / "whole", tmp_path / "out")
    assert Store.open(tmp_path / "out").stage(digest).left_out == {}
    import_pack(tmp_path / "thin", tmp_path / "out")  # what is there is left alone
    assert Store.open(tmp_path / "out").stage(digest).tensors("agent")
