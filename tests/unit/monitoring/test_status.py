"""`reaper watch` on made-up folders: what it says of stages that run, are silent, failed, are done or damaged."""

import json
import os
import shutil
import time

import pytest
from rich.console import Console

from reaper.cli.main import main
from reaper.errors import StorageFailed, UserError
from reaper.monitoring import status as looking
from reaper.monitoring import watch as screen
from reaper.monitoring.status import Watcher
from reaper.storage.store import Store, digest_of

TASKS = ["catch", "dodge"]


class MadeUp:
    """A folder with runs of two tasks, without any learning."""

    def __init__(self, folder):
        self.folder = folder
        self.store = Store.open_for(folder, {"version": "1", "scale": "arcade"})

    def spec(self, *name):
        return {"kind": name[0], "name": list(name), "parents": {}}

    def digest(self, *name):
        return digest_of(self.spec(*name))

    def run(self, condition):
        """Two conditions share their teachers."""
        record = {
            "name": f"{condition}--two--seed-0",
            "condition": {"name": condition},
            "sequence": "two",
            "tasks": TASKS,
            "titles": ["Catch", "Dodge"],
            "seed": 0,
            "teachers": [self.digest("teacher", task) for task in TASKS],
            "generators": [],
            "memories": [self.digest("memory", condition, task) for task in TASKS],
            "evaluations": [self.digest("evaluation", condition, task) for task in TASKS],
            "singles": [self.digest("single", task) for task in TASKS],
            "random": self.digest("random"),
        }
        self.store.write_run(record["name"], record)
        return record

    def finish(self, *name, rows=(), seconds=10.0):
        spec, digest = self.spec(*name), self.digest(*name)
        about = {"kind": name[0], "title": " ".join(name), "spec": spec}
        self.store.write_stage(digest, about, {}, {"rows": list(rows)}, {"seconds": seconds})

    def live(self, *name, age=0.0, beat=1, **told):
        path = self.folder / "live" / f"{self.digest(*name)}.json"
        path.parent.mkdir(exist_ok=True)
        known = {"title": " ".join(name), "state": "running", "runner": "r", "phase": "learn", "unit": "frames"}
        path.write_text(json.dumps({**known, "digest": path.stem, "beat": beat, **told}))
        os.utime(path, (time.time() - age,) * 2)
        return path


@pytest.fixture
def made_up(tmp_path):
    return MadeUp(tmp_path / "out")


def states(look):
    return {stage.title: stage.state for stage in look.stages if stage.state not in ("waiting", "done")}


def shown(look, out, width=300):
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(screen.frame(look, out))
    return console.export_text()


def test_stages_that_two_runs_share_are_counted_once(made_up):
    for condition in ("RePR", "no-reh"):
        made_up.run(condition)
    made_up.finish("teacher", "catch")
    look = Watcher(made_up.folder).look()
    assert len(look.stages) == 2 + 2 + 1 + 2 * (2 + 2)  # teachers, singles, random; memories and evaluations of each
    assert look.counts["done"] == 1
    assert [(run.stages_done, run.stages) for run in look.runs] == [(1, 9), (1, 9)]


def test_running_silent_failed_stopped_and_lost(made_up):
    made_up.run("RePR")
    made_up.live("teacher", "catch", done=30, total=120, per_second=10.0, seconds_left=9.0, score=2.5)
    made_up.live("teacher", "dodge", age=200.0)
    made_up.live("memory", "RePR", "catch", state="failed", error="the loss became nan", exit_code=70)
    made_up.live("single", "catch", state="stopped", error="stopped")
    made_up.live("random", state="lost", error="gone")
    look = Watcher(made_up.folder).look()
    assert states(look) == {
        "teacher catch": "running",
        "teacher dodge": "silent",
        "memory RePR catch": "failed",
        "single catch": "stopped",
        "random": "lost",
    }
    text = shown(look, made_up.folder)
    for words in ("silent for 3 min", "the loss became nan", "25%", "10 frames/s", "9 s", "2.5", "4 waiting"):
        assert words in text, words
    assert look.unsure


def test_a_sign_that_changes_is_alive_whatever_the_clocks_say(made_up):
    made_up.run("RePR")
    made_up.live("teacher", "catch", age=5_000.0)
    made_up.live("teacher", "dodge", age=-5_000.0)  # from the future: it may be old as well
    watcher = Watcher(made_up.folder)
    assert set(states(watcher.look()).values()) == {"silent"}
    made_up.live("teacher", "catch", age=5_000.0, beat=2)
    made_up.live("teacher", "dodge", age=-5_000.0, beat=2)
    assert set(states(watcher.look()).values()) == {"running"}


def test_a_sign_that_stays_the_same_falls_silent(made_up, monkeypatch):
    made_up.run("RePR")
    made_up.live("teacher", "catch")
    watcher = Watcher(made_up.folder)
    assert states(watcher.look()) == {"teacher catch": "running"}
    later = time.monotonic() + looking.SILENT_AFTER + 1
    monkeypatch.setattr(looking.time, "monotonic", lambda: later)
    assert states(watcher.look()) == {"teacher catch": "silent"}


def test_one_look_is_enough_unless_a_stage_seems_silent(made_up, monkeypatch):
    made_up.run("RePR")
    made_up.live("teacher", "catch")
    waits = []
    monkeypatch.setattr(screen.time, "sleep", lambda seconds: waits.append(made_up.live("teacher", "catch", beat=2)))
    assert states(screen.look_twice(Watcher(made_up.folder))) == {"teacher catch": "running"}
    assert waits == []
    made_up.live("teacher", "catch", age=500.0)
    assert states(screen.look_twice(Watcher(made_up.folder))) == {"teacher catch": "running"}
    assert len(waits) == 1


def test_scores_are_those_after_the_last_task(made_up):
    made_up.run("RePR")
    made_up.finish("memory", "RePR", "catch")
    for after, scores in (("catch", ([4.0, 6.0], [0.0, 0.0])), ("dodge", ([3.0, 5.0], [7.0, 8.0]))):
        rows = [{"task": task, "scores": got} for task, got in zip(TASKS, scores, strict=True)]
        made_up.finish("evaluation", "RePR", after, rows=rows)
        (run,) = Watcher(made_up.folder).look().runs
        assert run.scores == {"Catch": sum(scores[0]) / 2, "Dodge": sum(scores[1]) / 2}
        assert run.scored_after == after.capitalize()
    assert (run.learnt, len(run.tasks)) == (1, 2)


def test_time_left_is_that_of_stages_of_the_same_kind(made_up):
    made_up.run("RePR")
    assert Watcher(made_up.folder).look().seconds_left is None  # nothing runs
    for name in (("teacher", "catch"), ("teacher", "dodge"), ("single", "catch"), ("memory", "RePR", "catch")):
        made_up.finish(*name, seconds=10.0)
    made_up.live("single", "dodge", done=1, total=4, seconds_left=6.0)
    look = Watcher(made_up.folder).look()
    assert look.at_least  # nobody knows what evaluations and later memories take
    made_up.finish("evaluation", "RePR", "catch", seconds=20.0)
    made_up.finish("random", seconds=1.0)
    made_up.live("memory", "RePR", "dodge", done=1, total=4, seconds_left=30.0)
    look = Watcher(made_up.folder).look()
    # Its own 6 s for the single, 30 s for the memory, an unknown evaluation: two stages side by side.
    assert (look.seconds_left, look.at_least) == (18.0, True)


def test_all_done(made_up, capfd):
    made_up.run("RePR")
    for name in (["teacher"], ["single"], ["memory", "RePR"], ["evaluation", "RePR"]):
        for task in TASKS:
            made_up.finish(*name, task)
    made_up.finish("random")
    made_up.live("random")  # left by a process that was killed just after it had finished it
    look = Watcher(made_up.folder).look()
    assert look.finished
    assert look.counts["running"] == 0
    assert main(["watch", str(made_up.folder), "--once"]) == 0
    assert "all is done" in capfd.readouterr().out


def test_damage_is_shown_and_not_fatal(made_up, capfd):
    made_up.run("RePR")
    made_up.run("no-reh")
    (made_up.folder / "runs" / "no-reh--two--seed-0.json").write_text("{")
    made_up.finish("single", "catch", rows=[{"task": "catch", "scores": [1.0]}])
    (made_up.store.path_of(made_up.digest("single", "catch")) / "rows.json").write_text("[]")
    made_up.live("teacher", "catch").write_text("not JSON")
    made_up.live("teacher", "dodge").write_text(json.dumps({"digest": "another", "state": "running"}))
    assert main(["watch", str(made_up.folder), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert len(told["problems"]) == 4
    assert [run["name"] for run in told["runs"]] == ["RePR--two--seed-0"]
    assert told["counts"]["done"] == 1


def test_what_a_file_says_cannot_harm_the_terminal(made_up):
    made_up.run("RePR")
    words = "\x1b[2J[red]gone[/red]"
    made_up.live("teacher", "catch", title=words, state="failed", error=words, done="x", total=[1], score=1e400)
    made_up.live("teacher", "dodge", state="\x1b]0;hi\x07", done=10**400, seconds_left=float("nan"))
    text = shown(Watcher(made_up.folder).look(), made_up.folder)
    assert "\x1b" not in text
    assert "?[2J[red]gone[/red]" in text


def test_an_empty_store_and_one_that_vanishes(made_up, capfd):
    assert main(["watch", str(made_up.folder), "--once"]) == 0
    assert "no run has been started" in capfd.readouterr().out
    watcher = Watcher(made_up.folder)
    shutil.rmtree(made_up.folder)
    with pytest.raises(StorageFailed, match="is gone"):
        watcher.look()
    with pytest.raises(UserError, match="is not a run"):
        Watcher(made_up.folder)


def test_a_read_only_folder_can_be_watched_and_is_left_alone(made_up):
    made_up.run("RePR")
    made_up.live("teacher", "catch", age=100.0)
    before = {path: path.stat().st_mtime_ns for path in made_up.folder.rglob("*")}
    Watcher(made_up.folder).look()
    assert {path: path.stat().st_mtime_ns for path in made_up.folder.rglob("*")} == before


def test_the_screen_refreshes_until_all_is_done(made_up, monkeypatch):
    made_up.run("RePR")
    names = [("teacher", "catch"), ("teacher", "dodge"), ("single", "catch"), ("single", "dodge"), ("random",)]
    names += [(kind, "RePR", task) for kind in ("memory", "evaluation") for task in TASKS]
    monkeypatch.setattr(screen.time, "sleep", lambda seconds: made_up.finish(*names.pop()))
    console = Console(width=100, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    screen.watch(made_up.folder, console, once=False, json_=False)
    assert names == []
