"""Signals, failures and divergence, as seen from outside: exit codes, messages and files."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import TINY, plan_tiny, run_plan, run_tiny
from curves import read_curves

from reaper.engines.signals import Stop
from reaper.errors import Diverged, Stopped, StorageFailed, UserError
from reaper.learning.best_weights import BestWeights
from reaper.retention import NoRetention, OnlineEWC
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.storage.store import Store

DIGEST = "0" * 20  # of no stage
LONG = {"short-term.agent-steps": "200000", "evaluation.interval": "200000"}
DIGEST = "0123456789abcdef0123"


def start(out, workers, overrides=(), extra=()):
    settings = {**TINY, **dict(overrides)}
    command = [sys.executable, "-m", "reaper", "run", "no-reh", "--tasks", "catch,dodge", "--out", str(out)]
    command += ["--workers", str(workers), "--device", "cpu", "--log", "json", *extra]
    command += [f"--{name}={value}" for name, value in settings.items()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)


def wait_for_work(process):
    """Reads progress until a stage has made some."""
    assert process.stderr is not None
    for line in process.stderr:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("done", 0) > 0:
            return
    raise AssertionError("the run ended before it made progress")


def last_line(process):
    return process.stderr.read().strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGTERM, 1), pytest.param(signal.SIGINT, 2, marks=pytest.mark.long)]
)
def test_a_signal_saves_the_state_and_tells_how_to_resume(tmp_path, number, workers):
    process = start(tmp_path / "out", workers, LONG.items())
    wait_for_work(process)
    process.send_signal(number)
    line = last_line(process)
    assert process.wait(60) == 75
    assert line == f"reaper: stopped by {number.name}; all work is saved, and the same command resumes it"
    saved = list((tmp_path / "out" / "unfinished").glob("*/[0-9]*"))
    assert len(saved) == workers
    counters = json.loads((saved[0] / "others.json").read_text())
    assert counters["trainer/agent_steps"] > 0
    live = [json.loads(path.read_text()) for path in (tmp_path / "out" / "live").iterdir()]
    assert [record["state"] for record in live] == ["stopped"] * workers


def test_a_second_interrupt_exits_at_once_without_damage(tmp_path):
    stop = Stop()
    stop.ask(signal.SIGINT)
    assert stop()
    with pytest.raises(KeyboardInterrupt):
        stop.ask(signal.SIGINT)
    process = start(tmp_path / "out", 1, LONG.items())
    wait_for_work(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (75, 130)  # the second may arrive when the process has already stopped
    for path in (tmp_path / "out" / "unfinished").glob("*/[0-9]*"):
        CheckpointDir(path.parent, path.parent.name).read(int(path.name))


def test_workers_die_with_their_parent(tmp_path):
    process = start(tmp_path / "out", 2, LONG.items())
    wait_for_work(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) >= 2
    process.kill()
    process.wait(60)
    end = time.monotonic() + 20
    while time.monotonic() < end and any(alive(child) for child in children):
        time.sleep(0.1)
    assert not any(alive(child) for child in children)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_processes_share_a_folder_and_run_no_stage_twice(tmp_path):
    both = [start(tmp_path / "out", 1, extra=["--share"]) for _ in range(2)]
    finished = []
    for process in both:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-2000:]
        events = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
        finished += [event["digest"] for event in events if event["event"] == "finished"]
    assert len(finished) == len(set(finished)) == len(Store(tmp_path / "out").stages())
    curves = read_curves(tmp_path / "out")  # one file per folder, and no point twice
    assert sum("/stages/" in place for place in curves) == 3  # two teachers and the second task's consolidation
    assert max(curves["tensorboard/runs/no-reh--catch-dodge--seed-0"]["score/dodge"]) == 2
    assert not list((tmp_path / "out" / "live").iterdir())


@pytest.mark.long
def test_a_folder_that_is_not_shared_is_refused(tmp_path):
    first = start(tmp_path / "out", 1, LONG.items())
    wait_for_work(first)
    second = start(tmp_path / "out", 1, LONG.items(), extra=["--share"])
    assert "another run is writing" in last_line(second)
    assert second.wait(60) == 2
    first.kill()
    first.wait(60)


def test_a_checkpointer_that_is_asked_to_stop_saves_first(tmp_path):
    checkpointer = Checkpointer(CheckpointDir(tmp_path / "d", DIGEST), Interval(None, 10**9), stop=lambda: True)
    window = BestWeights(_weights(), 10, by_score=True)
    window.scores = [3.0]
    checkpointer.register("best", window)
    with pytest.raises(Stopped):
        checkpointer.maybe_save(1)
    again, other = Checkpointer(CheckpointDir(tmp_path / "d", DIGEST)), BestWeights(_weights(), 10, by_score=True)
    again.register("best", other)
    assert other.scores == [3.0]


def _weights():
    from reaper.compute.optimiser import FlatWeights

    return FlatWeights(torch.nn.Linear(2, 1))


def test_only_the_two_newest_checkpoints_are_kept(tmp_path):
    checkpointer = Checkpointer(CheckpointDir(tmp_path / "d", DIGEST), Interval(None, 1))
    checkpointer.register("best", BestWeights(_weights(), 10, by_score=True))
    for _ in range(4):
        checkpointer.save()
        checkpointer.close()
    assert CheckpointDir(tmp_path / "d", DIGEST).numbers() == [3, 4]


def test_a_checkpoint_with_nan_is_never_written(tmp_path):
    checkpointer, weights = Checkpointer(CheckpointDir(tmp_path / "d", DIGEST)), _weights()
    checkpointer.register("weights", weights)
    checkpointer.save()
    checkpointer.close()
    weights.values[0] = float("nan")
    with pytest.raises(Diverged, match="weights/values"):
        checkpointer.save()
    assert CheckpointDir(tmp_path / "d", DIGEST).numbers() == [1]


@pytest.mark.parametrize(
    ("setting", "message"),
    [("optimiser.learning-rate", "the loss of learn Catch became"), ("gan.learning-rate", "generator")],
)
def test_divergence_stops_the_stage(tmp_path, setting, message):
    with pytest.raises(Diverged, match=message) as caught:
        run_tiny(tmp_path / "out", ["RePR"], tasks="catch,dodge", overrides={setting: 1e30})
    assert "learning" in str(caught.value)
    assert "\n" not in str(caught.value)
    kinds = [Store(tmp_path / "out").stage(digest).manifest.kind for digest in Store(tmp_path / "out").stages()]
    assert "consolidate" not in kinds


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stage_that_fails_takes_only_its_own_chain_with_it(tmp_path, workers):
    """The generators diverge; the condition without a generator is finished all the same."""
    overrides = {**TINY, "gan.learning-rate": 1e30}
    study = plan_tiny(["RePR", "no-reh"], "catch,dodge", workers=workers, overrides=overrides)
    events = []
    with pytest.raises(Diverged, match="generator"):
        run_plan(study, tmp_path / "out", lambda stage, event: events.append((stage.title, event.name)))
    assert [title for title, event in events if event == "failed"] == ["RePR: consolidate catch (seed 0)"]
    store = Store(tmp_path / "out")
    finished = {stage.title for stage in study.stages if store.has(stage.digest)}
    assert finished == {stage.title for stage in study.stages if not stage.title.startswith("RePR")}


def test_a_bug_in_one_method_leaves_the_others_alone_and_keeps_its_traceback(tmp_path, monkeypatch):
    def broken(self, context, memory, agent, new_states):
        raise ZeroDivisionError("a bug in a plugin")

    monkeypatch.setattr(OnlineEWC, "remember", broken)
    with pytest.raises(ZeroDivisionError, match="a bug in a plugin"):
        run_tiny(tmp_path / "out", ["online-ewc", "no-reh"], tasks="catch,dodge")
    store = Store(tmp_path / "out")
    kinds = [store.stage(digest).manifest.kind for digest in store.stages()]
    assert kinds.count("consolidate") == 2  # of no-reh


def test_an_error_that_would_hit_every_stage_stops_them_all(tmp_path, monkeypatch):
    def full(self, context, memory, agent, new_states):
        raise StorageFailed("no space is left")

    monkeypatch.setattr(OnlineEWC, "remember", full)
    monkeypatch.setattr(NoRetention, "remember", full)
    events = []
    study = plan_tiny(["online-ewc", "no-reh"], "catch,dodge")
    with pytest.raises(StorageFailed):
        run_plan(study, tmp_path / "out", lambda stage, event: events.append(event.name))
    assert events.count("failed") == 1


@pytest.mark.parametrize("text", ["0", "-5", "ten", "5d", "1.5", "0m"])
def test_an_invalid_checkpoint_interval_is_refused(text):
    with pytest.raises(UserError, match="--checkpoint-every"):
        Interval.parse(text)


def test_checkpoint_intervals_are_times_or_agent_steps():
    assert Interval.parse("10m") == Interval(600.0)
    assert Interval.parse("30s") == Interval(30.0)
    assert Interval.parse("50000") == Interval(None, 50_000)
