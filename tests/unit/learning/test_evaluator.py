"""Concurrent evaluation: the same rows in the same order as blocking evaluation, late or not, killed or not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import run_tiny
from curves import read_curves
from evaluations import CATCH, DODGE, SETTINGS, FakeProcess, new_context, new_evaluator_with_fake_process

from reaper.config.presets import ARCADE, PAPER
from reaper.context import state_tensors
from reaper.errors import Stopped
from reaper.generators import generator_for
from reaper.learning.evaluation.blocking import BlockingEvaluator
from reaper.learning.evaluation.concurrent import MAX_DEFERRED, MAX_PENDING_JOBS, ConcurrentEvaluator
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.evaluation.evaluator import new_evaluator, worth_concurrent_eval
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm
from reaper.learning.teachers import DQNTeacher
from reaper.memory.long_term import LongTermMemory
from reaper.progress import CurvePoints, PhaseProgress, Progress
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.study.conditions import CONDITIONS

DIGEST = "0" * 20  # of no stage


@pytest.fixture(scope="module")
def trained():
    """An agent trained with blocking evaluation."""
    return ShortTerm(new_context(concurrent=False), CATCH).learn()


# -- training


@pytest.mark.long
def test_a_study_results_in_the_same_bytes_and_curves(tmp_path, tiny_run, monkeypatch):
    """As with blocking evaluation; compared are the stages of its first two tasks."""
    monkeypatch.setattr("reaper.study.stage_run.worth_concurrent_eval", lambda settings, device: True)
    out = tmp_path / "concurrent"
    run_tiny(out, ["RePR"], tasks="catch,dodge")
    names = [path.relative_to(out) for path in (out / "stages").rglob("*.*")]
    names = [name for name in names if (tiny_run / name.parent).exists()]  # final evaluations are of all tasks
    assert sum(name.name == "rows.json" for name in names) == 6  # teachers, their evaluations, long-term memories
    for name in names:
        if name.name != "provenance.json":
            assert (out / name).read_bytes() == (tiny_run / name).read_bytes(), name
    blocking, compared = read_curves(tiny_run), 0
    for place, curves in read_curves(out).items():
        evaluations = {tag: points for tag, points in curves.items() if tag.startswith("evaluation")}
        assert all(blocking[place][tag] == points for tag, points in evaluations.items())
        compared += len(evaluations)
    assert compared == 4  # each teacher on its task, and the long-term agent on both


def test_late_rows_keep_their_order_and_training_waits_only_for_the_oldest():
    events = []
    evaluator = new_evaluator_with_fake_process(progress=Progress(events.append))
    for number in range(MAX_PENDING_JOBS):
        evaluator.evaluate([CATCH, DODGE], 120 * (number + 1))
        evaluator.wait_if_behind()  # does not wait
    evaluator.poll()
    assert evaluator.rows == []
    waited, process = [], evaluator.process
    process.on_wait = lambda: (waited.append(len(evaluator.pending)), process.complete())
    evaluator.evaluate([CATCH, DODGE], 120 * (MAX_PENDING_JOBS + 1))
    evaluator.wait_if_behind()
    assert waited == [MAX_PENDING_JOBS + 1] * 2  # for both evaluations of the first job
    assert [(row["agent_steps"], row["task"]) for row in evaluator.rows] == [(120, "catch"), (120, "dodge")]
    process.complete(3)
    evaluator.poll()
    assert len(evaluator.rows) == 5
    assert len(evaluator.finish()) == 2 * (MAX_PENDING_JOBS + 1)
    logged = [(event.step, *event.values) for event in events if isinstance(event, CurvePoints)]
    assert logged == [(row["agent_steps"], f"evaluation/{row['task']}") for row in evaluator.rows]


def test_weights_are_copied_when_they_are_submitted():
    network = new_context().q_network()
    evaluator, before = new_evaluator_with_fake_process(network), state_tensors(network)
    evaluator.evaluate([CATCH], 120)
    with torch.no_grad():
        network.values.bias.fill_(7.0)
    submitted = evaluator.process.jobs[0].weights
    assert all(torch.equal(before[name], tensor) for name, tensor in submitted.items())


# -- deferred evaluations


def test_evaluations_are_deferred_until_cores_are_idle():
    evaluator = new_evaluator_with_fake_process()
    evaluator.defer()
    for number in range(MAX_DEFERRED):
        evaluator.evaluate([CATCH], number + 1)
        evaluator.wait_if_behind()
    assert evaluator.process is None  # not even started
    evaluator.evaluate([CATCH], MAX_DEFERRED + 1)
    assert [job.agent_steps for job in evaluator.process.jobs] == [1]  # only the oldest
    evaluator.process.complete()
    evaluator.poll()
    resumed = new_evaluator_with_fake_process()
    resumed.defer()
    resumed.restore(evaluator.state())
    for each in (evaluator, resumed):
        each.run_deferred()
        assert [job.agent_steps for job in each.process.jobs] == list(range(2, MAX_DEFERRED + 2))
        assert each.process.concurrent_after == [MAX_DEFERRED]
        each.process.on_wait = each.process.complete
        assert [row["agent_steps"] for row in each.finish()] == list(range(1, MAX_DEFERRED + 2))


def test_more_tasks_mean_fewer_deferred_jobs():
    evaluator = new_evaluator_with_fake_process()
    evaluator.defer()
    for number in range(MAX_DEFERRED // 2):
        evaluator.evaluate([CATCH, DODGE], number + 1)
    assert evaluator.process is None
    evaluator.evaluate([CATCH, DODGE], MAX_DEFERRED // 2 + 1)
    assert [job.agent_steps for job in evaluator.process.jobs] == [1]


def test_deferring_does_not_raise_the_limit_of_submitted_jobs():
    evaluator = new_evaluator_with_fake_process()
    evaluator.defer()
    for number in range(MAX_DEFERRED + MAX_PENDING_JOBS):
        evaluator.evaluate([CATCH], number + 1)
        evaluator.wait_if_behind()
    assert evaluator.rows == []
    evaluator.process.on_wait = evaluator.process.complete
    evaluator.evaluate([CATCH], MAX_DEFERRED + MAX_PENDING_JOBS + 1)
    evaluator.wait_if_behind()
    assert [row["agent_steps"] for row in evaluator.rows] == [1]


@pytest.mark.parametrize("name", ["RePR", "no-reh"])
def test_only_a_consolidation_that_trains_a_generator_defers_evaluations(name, monkeypatch):
    calls = []
    for method in ("defer", "run_deferred", "evaluate"):
        monkeypatch.setattr(ConcurrentEvaluator, method, lambda self, *args, method=method: calls.append(method))
    monkeypatch.setattr(ConcurrentEvaluator, "finish", lambda self: calls.append("finish") or [])
    context, condition = new_context(), CONDITIONS[name]
    agent = state_tensors(context.q_network())
    generator = {f"generator.{part}": t for part, t in generator_for(SETTINGS).untrained(context).state().items()}
    consolidation = Consolidation(
        context=context,
        tasks=(DODGE, CATCH),
        objective=condition.make_objective(),
        retention=condition.make_retention(SETTINGS),
        knowledge=condition.make_knowledge(),
        teacher=DQNTeacher(context, agent, 0.0, 1.0),
    )
    consolidation.run(LongTermMemory(agent, ("dodge",), generator))
    expected = ["defer"] if name == "RePR" else []
    assert calls == [*expected, "evaluate", "evaluate", "run_deferred", "finish"]


# -- stops and kills


class NeverReplies(FakeProcess):
    """Counts how often it was waited for."""

    waited = 0

    def has_reply(self, seconds=0.0):
        NeverReplies.waited += bool(seconds)
        return False


def test_a_stop_saves_outstanding_evaluations_and_does_not_wait_for_them(tmp_path, trained):
    folder = CheckpointDir(tmp_path / "d", DIGEST)
    NeverReplies.waited = 0
    checkpointer = Checkpointer(folder, Interval(10**9), stop=lambda: NeverReplies.waited > 0)
    learner = ShortTerm(new_context(checkpointer=checkpointer), CATCH)
    learner.trainer.evaluator = ConcurrentEvaluator(learner.context, learner.network, new_process=NeverReplies)
    with pytest.raises(Stopped):
        learner.learn()
    assert [job.agent_steps for job in learner.trainer.evaluator.pending] == [120, 240]
    assert learner.trainer.evaluator.process is None  # closed
    events = []
    context = new_context(checkpointer=Checkpointer(folder, Interval(10**9)), progress=Progress(events.append))
    resumed = ShortTerm(context, CATCH).learn()
    assert resumed.rows == trained.rows
    assert all(torch.equal(tensor, trained.weights[name]) for name, tensor in resumed.weights.items())
    assert [event.step for event in events if isinstance(event, CurvePoints)] == [120, 240]


KILLED = """
import os, signal, sys
from pathlib import Path
from test_evaluator import CATCH, DIGEST, CheckpointDir, Checkpointer, Interval, ShortTerm, new_context
write = CheckpointDir.write
def write_and_die(self, tensors, others):
    write(self, tensors, others)
    if "trainer/pending/0/tasks" in others:
        print(learner.trainer.evaluator.process.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
CheckpointDir.write = write_and_die
checkpointer = Checkpointer(CheckpointDir(Path(sys.argv[1]), DIGEST), Interval(None, 24))
learner = ShortTerm(new_context(checkpointer=checkpointer), CATCH)
learner.learn()
"""


def test_after_a_kill_the_process_is_gone_and_its_evaluations_are_repeated(tmp_path, trained):
    folder = CheckpointDir(tmp_path / "d", DIGEST)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", KILLED, str(folder.folder)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    end = time.monotonic() + 10
    while alive(killed.stdout.strip()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(killed.stdout.strip())
    saved = json.loads((folder.folder / str(max(folder.numbers())) / "others.json").read_text())
    assert saved["trainer/pending/0/tasks"] == ["catch"]
    assert saved["trainer/rows/rows"] == []
    assert ShortTerm(new_context(checkpointer=Checkpointer(folder)), CATCH).learn().rows == trained.rows


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- blocking or concurrent


def test_concurrent_evaluation_pays_for_large_networks_on_a_gpu():
    assert worth_concurrent_eval(PAPER, torch.device("cuda"))
    assert not worth_concurrent_eval(PAPER, torch.device("cpu"))
    assert not worth_concurrent_eval(ARCADE, torch.device("cuda"))
    assert isinstance(new_evaluator(new_context(), new_context().q_network()), ConcurrentEvaluator)
    assert isinstance(new_evaluator(new_context(), new_context().q_network(residual=True)), BlockingEvaluator)
    assert isinstance(new_evaluator(new_context(concurrent=False), torch.nn.Linear(1, 1)), BlockingEvaluator)


def test_a_concurrent_evaluator_restores_the_checkpoint_of_a_blocking_one():
    row = {"task": "catch", "agent_steps": 120, "scores": [1.0]}
    evaluator = new_evaluator_with_fake_process()
    evaluator.restore({"tasks_done": 1, "rows": {"rows": [row]}})
    evaluator.evaluate([CATCH, DODGE], 120)
    assert evaluator.pending[0].tasks == ["dodge"]


def test_a_blocking_evaluator_runs_the_outstanding_jobs_of_a_concurrent_one():
    then = new_context()
    now = replace(then, seed=7)  # an agent that has learnt more since then
    concurrent = new_evaluator_with_fake_process(then.q_network())
    concurrent.evaluate([CATCH, DODGE], 120)
    concurrent.evaluate([CATCH], 240)
    blocking = BlockingEvaluator(then, now.q_network())
    blocking.restore(concurrent.state())
    assert blocking.state()["pending"].keys() == concurrent.state()["pending"].keys()  # a second stop loses nothing
    blocking.evaluate([CATCH], 360)
    agents = [then.q_network()] * 3 + [now.q_network()]
    evaluations = [(CATCH, 120), (DODGE, 120), (CATCH, 240), (CATCH, 360)]
    expected = [evaluate(then, agent, *each) for agent, each in zip(agents, evaluations, strict=True)]
    assert blocking.finish() == expected
    assert "pending" not in blocking.state()


def test_an_evaluation_shows_its_mean_return_before_an_episode_ends():
    """Episodes of Catch all take equally long: without it, nothing would move until the end."""
    events = []
    context = new_context(progress=Progress(events.append, min_interval=0.0))
    row = evaluate(context, context.q_network(), CATCH, 120)
    shown = [(event.done, event.score) for event in events if isinstance(event, PhaseProgress) and event.phase]
    assert len({score for done, score in shown if done == 0 and score is not None}) > 1
    assert shown[-1] == (2, sum(row["scores"]) / 2)
