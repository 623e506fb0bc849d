"""`reaper watch` on handmade folders with stages that run, are silent, failed, are done or damaged."""

import json
import os
import shutil
import time

import pytest
from rich.console import Console

from reaper.cli.main import main
from reaper.errors import StorageFailed, UserError
from reaper.monitoring import status as status_module
from reaper.monitoring import watch as watch_module
from reaper.monitoring.status import StatusReader
from reaper.storage.files import digest_of
from reaper.storage.manifests import Provenance, StageManifest
from reaper.storage.records import RunRecord, StageEntry, StoreHeader
from reaper.storage.store import Store

TASKS = ["catch", "dodge"]


class Handmade:
    """A folder with runs of two tasks, without any learning."""

    def __init__(self, folder):
        self.folder = folder
        self.store = Store.open_for(folder, StoreHeader("1", "arcade", 1.0, {}))

    def spec(self, *name):
        return {"kind": name[0], "name": list(name), "parents": {}}

    def digest(self, *name):
        return digest_of(self.spec(*name))

    def run(self, condition):
        """Two conditions share their teachers."""
        teachers, singles = [("teacher", task) for task in TASKS], [("single", task) for task in TASKS]
        memories = [("memory", condition, task) for task in TASKS]
        evaluations = [("evaluation", condition, task) for task in TASKS]
        record = RunRecord(
            name=f"{condition}--two--seed-0",
            condition={"name": condition},
            sequence="two",
            tasks=tuple(TASKS),
            titles=("Catch", "Dodge"),
            num_actions=6,
            seed=0,
            command="reaper run",
            settings={},
            teachers=tuple(self.digest(*name) for name in teachers),
            generators=(),
            memories=tuple(self.digest(*name) for name in memories),
            evaluations=tuple(self.digest(*name) for name in evaluations),
            singles=tuple(self.digest(*name) for name in singles),
            random=self.digest("random"),
            stages={
                self.digest(*name): StageEntry(" ".join(name), ())
                for name in (*teachers, *memories, *evaluations, *singles, ("random",))
            },
        )
        self.store.write_run(record)
        return record

    def finish(self, *name, rows=(), seconds=10.0):
        manifest = StageManifest(self.spec(*name), " ".join(name))
        self.store.write_stage(manifest, {}, {"rows": list(rows)}, Provenance(seconds=seconds))

    def live(self, *name, age=0.0, beat=1, **fields):
        path = self.folder / "live" / f"{self.digest(*name)}.json"
        path.parent.mkdir(exist_ok=True)
        record = {"title": " ".join(name), "state": "running", "runner": "r", "phase": "learn", "unit": "agent steps"}
        path.write_text(json.dumps({**record, "digest": path.stem, "beat": beat, **fields}))
        os.utime(path, (time.time() - age,) * 2)
        return path


@pytest.fixture
def handmade(tmp_path):
    return Handmade(tmp_path / "out")


def states(status):
    return {stage.title: stage.state for stage in status.stages if stage.state not in ("waiting", "done")}


def shown(status, out, width=300):
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(watch_module.render(status, out))
    return console.export_text()


def test_stages_that_two_runs_share_are_counted_once(handmade):
    for condition in ("RePR", "no-reh"):
        handmade.run(condition)
    handmade.finish("teacher", "catch")
    status = StatusReader(handmade.folder).read()
    assert len(status.stages) == 2 + 2 + 1 + 2 * (2 + 2)  # teachers, singles, random; memories and evaluations of each
    assert status.counts["done"] == 1
    assert [(run.stages_done, run.stages) for run in status.runs] == [(1, 9), (1, 9)]


def test_running_silent_failed_stopped_and_lost(handmade):
    handmade.run("RePR")
    handmade.live("teacher", "catch", done=30, total=120, per_second=10.0, seconds_left=9.0, score=2.5)
    handmade.live("teacher", "dodge", age=200.0)
    handmade.live("memory", "RePR", "catch", state="failed", error="the loss became nan", exit_code=70)
    handmade.live("single", "catch", state="stopped", error="stopped")
    handmade.live("random", state="lost", error="gone")
    status = StatusReader(handmade.folder).read()
    assert states(status) == {
        "teacher catch": "running",
        "teacher dodge": "silent",
        "memory RePR catch": "failed",
        "single catch": "stopped",
        "random": "lost",
    }
    text = shown(status, handmade.folder)
    for part in ("silent for 3 min", "the loss became nan", "25%", "10 agent steps/s", "9 s", "2.5", "4 waiting"):
        assert part in text, part
    assert status.unsure


def test_a_live_file_that_changes_is_alive_whatever_the_clocks_are(handmade):
    handmade.run("RePR")
    handmade.live("teacher", "catch", age=5_000.0)
    handmade.live("teacher", "dodge", age=-5_000.0)  # from the future: it may be old as well
    reader = StatusReader(handmade.folder)
    assert set(states(reader.read()).values()) == {"silent"}
    handmade.live("teacher", "catch", age=5_000.0, beat=2)
    handmade.live("teacher", "dodge", age=-5_000.0, beat=2)
    assert set(states(reader.read()).values()) == {"running"}


def test_a_live_file_that_does_not_change_becomes_silent(handmade, monkeypatch):
    handmade.run("RePR")
    handmade.live("teacher", "catch")
    reader = StatusReader(handmade.folder)
    assert states(reader.read()) == {"teacher catch": "running"}
    later = time.monotonic() + status_module.SILENT_AFTER + 1
    monkeypatch.setattr(status_module.time, "monotonic", lambda: later)
    assert states(reader.read()) == {"teacher catch": "silent"}


def test_one_read_is_enough_unless_a_stage_seems_silent(handmade, monkeypatch):
    handmade.run("RePR")
    handmade.live("teacher", "catch")
    waits = []
    monkeypatch.setattr(
        watch_module.time, "sleep", lambda seconds: waits.append(handmade.live("teacher", "catch", beat=2))
    )
    assert states(watch_module.read_until_sure(StatusReader(handmade.folder))) == {"teacher catch": "running"}
    assert waits == []
    handmade.live("teacher", "catch", age=500.0)
    assert states(watch_module.read_until_sure(StatusReader(handmade.folder))) == {"teacher catch": "running"}
    assert len(waits) == 1


def test_scores_are_those_after_the_last_task(handmade):
    handmade.run("RePR")
    handmade.finish("memory", "RePR", "catch")
    for after, scores in (("catch", ([4.0, 6.0], [0.0, 0.0])), ("dodge", ([3.0, 5.0], [7.0, 8.0]))):
        rows = [{"task": task, "scores": got} for task, got in zip(TASKS, scores, strict=True)]
        handmade.finish("evaluation", "RePR", after, rows=rows)
        (run,) = StatusReader(handmade.folder).read().runs
        assert run.scores == {"Catch": sum(scores[0]) / 2, "Dodge": sum(scores[1]) / 2}
        assert run.scored_after == after.capitalize()
    assert (run.learnt, len(run.tasks)) == (1, 2)


def test_time_left_comes_from_finished_stages_of_the_same_kind(handmade):
    handmade.run("RePR")
    assert StatusReader(handmade.folder).read().seconds_left is None  # nothing is running
    for name in (("teacher", "catch"), ("teacher", "dodge"), ("single", "catch"), ("memory", "RePR", "catch")):
        handmade.finish(*name, seconds=10.0)
    handmade.live("single", "dodge", done=1, total=4, seconds_left=6.0)
    status = StatusReader(handmade.folder).read()
    assert status.at_least  # no evaluation and no later memory has finished
    handmade.finish("evaluation", "RePR", "catch", seconds=20.0)
    handmade.finish("random", seconds=1.0)
    handmade.live("memory", "RePR", "dodge", done=1, total=4, seconds_left=30.0)
    status = StatusReader(handmade.folder).read()
    # 6 s for the single, 30 s for the memory, an unknown evaluation; two stages run at once.
    assert (status.seconds_left, status.at_least) == (18.0, True)


def test_all_runs_finished(handmade, capfd):
    handmade.run("RePR")
    for name in (["teacher"], ["single"], ["memory", "RePR"], ["evaluation", "RePR"]):
        for task in TASKS:
            handmade.finish(*name, task)
    handmade.finish("random")
    handmade.live("random")  # left by a process that was killed just after it finished the stage
    status = StatusReader(handmade.folder).read()
    assert status.finished
    assert status.counts["running"] == 0
    assert main(["watch", str(handmade.folder), "--once"]) == 0
    assert "9 done; finished" in " ".join(capfd.readouterr().out.split())  # a long path wraps the line


def test_damage_is_shown_and_not_fatal(handmade, capfd):
    handmade.run("RePR")
    handmade.run("no-reh")
    (handmade.folder / "runs" / "no-reh--two--seed-0.json").write_text("{")
    handmade.finish("single", "catch", rows=[{"task": "catch", "scores": [1.0]}])
    (handmade.store.path_of(handmade.digest("single", "catch")) / "rows.json").write_text("[]")
    handmade.live("teacher", "catch").write_text("not JSON")
    handmade.live("teacher", "dodge").write_text(json.dumps({"digest": "another", "state": "running"}))
    assert main(["watch", str(handmade.folder), "--json"]) == 0
    status = json.loads(capfd.readouterr().out)
    assert len(status["problems"]) == 4
    assert [run["name"] for run in status["runs"]] == ["RePR--two--seed-0"]
    assert status["counts"]["done"] == 1


def test_control_characters_in_a_live_file_do_not_reach_the_terminal(handmade):
    handmade.run("RePR")
    text = "\x1b[2J[red]gone[/red]"
    handmade.live("teacher", "catch", title=text, state="failed", error=text, done="x", total=[1], score=1e400)
    handmade.live("teacher", "dodge", state="\x1b]0;hi\x07", done=10**400, seconds_left=float("nan"))
    output = shown(StatusReader(handmade.folder).read(), handmade.folder)
    assert "\x1b" not in output
    assert "?[2J[red]gone[/red]" in output


def test_an_empty_store_and_one_that_vanishes(handmade, capfd):
    assert main(["watch", str(handmade.folder), "--once"]) == 0
    assert "no run has been started" in capfd.readouterr().out
    reader = StatusReader(handmade.folder)
    shutil.rmtree(handmade.folder)
    with pytest.raises(StorageFailed, match="is gone"):
        reader.read()
    with pytest.raises(UserError, match="is not a run"):
        StatusReader(handmade.folder)


def test_watching_writes_nothing(handmade):
    handmade.run("RePR")
    handmade.live("teacher", "catch", age=100.0)
    before = {path: path.stat().st_mtime_ns for path in handmade.folder.rglob("*")}
    StatusReader(handmade.folder).read()
    assert {path: path.stat().st_mtime_ns for path in handmade.folder.rglob("*")} == before


def test_watch_refreshes_until_all_runs_are_finished(handmade, monkeypatch):
    handmade.run("RePR")
    names = [("teacher", "catch"), ("teacher", "dodge"), ("single", "catch"), ("single", "dodge"), ("random",)]
    names += [(kind, "RePR", task) for kind in ("memory", "evaluation") for task in TASKS]
    monkeypatch.setattr(watch_module.time, "sleep", lambda seconds: handmade.finish(*names.pop()))
    console = Console(width=100, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    watch_module.watch(handmade.folder, console, once=False, json_=False)
    assert names == []
