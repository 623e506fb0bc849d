"""The evaluation process from its own side, run in this one; and when a process counts as starved."""

import json
import os
from types import SimpleNamespace

import pytest
import torch
from conftest import TINY
from evaluations import CATCH, FakeProcess, new_context, new_evaluator_with_fake_process
from safetensors.torch import save

from reaper.context import state_tensors
from reaper.errors import ReaperError, UserError
from reaper.learning.evaluation import concurrent
from reaper.learning.evaluation import process as process_module
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.evaluation.worker import EvalWorker
from reaper.progress import PhaseProgress, Progress
from reaper.tasks.sequence import TASKS


class Pipe:
    """What the parent sends is put into `incoming`."""

    def __init__(self):
        self.incoming, self.replies = [], []

    def recv_bytes(self):
        return self.incoming.pop(0)

    def send_bytes(self, data):
        self.replies.append(json.loads(data))


@pytest.fixture
def worker():
    return EvalWorker(new_context(), Pipe(), threads=1)


def handle(worker, agent_steps, tasks, weights):
    worker.connection.incoming.append(save(weights))
    worker.handle({"agent_steps": agent_steps, "tasks": tasks})
    replies, worker.connection.replies = worker.connection.replies, []
    return replies


def test_replies_are_rows_in_the_order_of_tasks(worker):
    network = worker.context.q_network()
    weights = state_tensors(network)
    for concurrently in (False, True):
        (first, unknown, last) = handle(worker, 120, ["catch", "nothing", "dodge"], weights)
        assert first == evaluate(new_context(), network, CATCH, 120)
        assert unknown == {"unknown": "nothing"}
        assert (last["task"], last["agent_steps"]) == ("dodge", 120)
        assert worker.concurrent_tasks is concurrently
        worker.handle({"concurrent_tasks": True})


def test_environments_are_opened_once_and_more_sets_on_request(worker):
    first = worker.open(CATCH)
    assert first.num_envs == 2
    assert worker.open(CATCH) is first
    assert worker.open(CATCH, 1) is not first
    assert set(worker.envs) == {("catch", 0), ("catch", 1)}


def test_errors_are_one_line_with_their_exit_code(worker, monkeypatch):
    (refused,) = handle(worker, 120, ["catch"], {"values.bias": torch.zeros(3)})
    assert refused["exit_code"] == UserError.exit_code
    assert refused["error"].startswith("the weights are those of another network")

    def crash():
        raise ZeroDivisionError("one\n  two " + "x" * 400)

    monkeypatch.setattr(TASKS, "_things", {**TASKS._things, "crash": crash})
    (crashed,) = handle(worker, 120, ["crash"], state_tensors(worker.context.q_network()))
    assert crashed["exit_code"] == ReaperError.exit_code
    assert crashed["error"].startswith("ZeroDivisionError: one two xxx")
    assert len(crashed["error"]) == 300


def test_a_pace_is_that_of_all_evaluations_together(worker):
    worker.handle({"measure": ["catch", "catch", "catch"], "seconds": 60.0})
    (pace,) = worker.connection.replies
    assert (pace["steps"], pace["whole"]) == (3 * (TINY["evaluation.max-steps"] - 1), True)
    worker.handle({"measure": ["catch", "dodge"], "seconds": 0.0})
    assert (worker.connection.replies[1]["steps"], worker.connection.replies[1]["whole"]) == (2, False)


# -- waiting


class Busy(FakeProcess):
    """Uses a share of a core, and replies after so many waits."""

    share, replies_after = 0.0, 100

    def __init__(self, context, low_priority=True):
        super().__init__(context, low_priority)
        self.waits, self.used = 0, 5.0

    def has_reply(self, seconds=0.0):
        if seconds and not self.replies:
            self.waits += 1
            self.used += self.share * seconds
            if self.waits >= self.replies_after or not self.low_priority:
                self.complete()
        return bool(self.replies)

    def cpu_seconds(self):
        return self.used


@pytest.mark.parametrize(
    ("share", "after", "started"),
    [
        (0.0, 15, [True]),  # three seconds: not yet
        (0.0, 17, [True, False]),  # longer
        (0.4, 17, [True, False]),
        (0.6, 40, [True]),  # more than half a core
    ],
)
def test_a_process_is_starved_after_three_seconds_with_less_than_half_a_core(share, after, started):
    processes = []

    def start(context, low_priority=True):
        processes.append(type("Process", (Busy,), {"share": share, "replies_after": after})(context, low_priority))
        return processes[-1]

    context = new_context()
    evaluator = concurrent.ConcurrentEvaluator(context, context.q_network(), new_process=start)
    evaluator.evaluate([CATCH], 120)
    assert [row["agent_steps"] for row in evaluator.finish()] == [120]
    assert [process.low_priority for process in processes] == started


def test_the_last_evaluations_are_counted():
    events = []
    evaluator = new_evaluator_with_fake_process(progress=Progress(events.append, min_interval=0.0))
    for agent_steps in (120, 240, 360):
        evaluator.evaluate([CATCH], agent_steps)
    evaluator.process.complete()
    evaluator.process.on_wait = evaluator.process.complete
    evaluator.finish()
    last = [event for event in events if isinstance(event, PhaseProgress)]
    assert [(event.phase, event.done, event.total) for event in last] == [
        ("last evaluations", done, 2) for done in (0, 1, 2)
    ]


def test_nothing_outstanding_is_no_phase():
    events = []
    evaluator = new_evaluator_with_fake_process(progress=Progress(events.append))
    assert evaluator.finish() == []
    assert events == []


def test_an_evaluation_of_no_task_is_no_job():
    evaluator = new_evaluator_with_fake_process()
    evaluator.tasks_done = 1
    evaluator.evaluate([CATCH], 120)
    assert (len(evaluator.pending), evaluator.tasks_done) == (0, 0)


def test_finishing_runs_what_was_deferred():
    evaluator = new_evaluator_with_fake_process()
    evaluator.defer()
    evaluator.evaluate([CATCH], 120)
    assert evaluator.process is None

    def start(context, low_priority=True):
        process = FakeProcess(context, low_priority)
        process.on_wait = process.complete
        return process

    evaluator._new_process = start
    assert [row["agent_steps"] for row in evaluator.finish()] == [120]


def test_at_most_eight_jobs_wait_while_training_continues_and_36_evaluations_until_a_generator_is_trained():
    """Nine copies of the weights are one too many; so are 37 evaluations at the end of a stage."""
    evaluator = new_evaluator_with_fake_process()
    for number in range(8):
        evaluator.evaluate([CATCH], number + 1)
        evaluator.wait_if_behind()
    evaluator.evaluate([CATCH], 9)
    waited, process = [], evaluator.process
    process.on_wait = lambda: (waited.append(1), process.complete())
    evaluator.wait_if_behind()
    assert len(waited) == 1
    deferring = new_evaluator_with_fake_process()
    deferring.defer()
    for number in range(36):
        deferring.evaluate([CATCH], number + 1)
    assert deferring.process is None
    deferring.evaluate([CATCH], 37)
    assert len(deferring.process.jobs) == 1


class Started:
    """Stands in for a process that was killed."""

    returncode = -9

    def kill(self):
        self.killed = True

    def wait(self):
        return self.returncode


@pytest.mark.parametrize(("cores", "threads"), [(2, 2), (4, 4), (16, 4)])
def test_a_process_has_at_most_four_threads_and_no_gpu(monkeypatch, cores, threads):
    started = []

    def start(program, options, descriptors, environment):
        started.append((json.loads(options), descriptors, environment))
        return Started()

    monkeypatch.setattr(process_module, "start_python", start)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    evaluating = process_module.EvalProcess(new_context(), low_priority=cores == 2)
    ((options, descriptors, environment),) = started
    assert (options["threads"], options["low_priority"], options["parent"]) == (threads, cores == 2, os.getpid())
    assert descriptors == (options["pipe"],)
    assert environment == {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": ""}
    with pytest.raises(ReaperError, match="was killed by signal 9, probably for lack of memory; the same command"):
        evaluating.receive()
    evaluating.process.returncode = 3
    with pytest.raises(ReaperError, match="the evaluation process exited with code 3; the same command"):
        evaluating.receive()
    evaluating.close()
    assert evaluating.process.killed


def test_cpu_time_is_that_of_the_process_itself_in_user_and_system_mode(monkeypatch, tmp_path):
    fields = " ".join(str(number) for number in range(3, 53))  # the third field is its state
    stat = tmp_path / "stat"
    stat.write_text(f"77 (a name) with) {fields}\n")
    monkeypatch.setattr(process_module, "Path", lambda path: stat if path == "/proc/77/stat" else tmp_path / "none")
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_CLK_TCK": 10}[name])
    evaluating = object.__new__(process_module.EvalProcess)
    evaluating.process = SimpleNamespace(pid=77)
    assert evaluating.cpu_seconds() == (14 + 15) / 10  # fields 14 and 15: utime and stime
    evaluating.process = SimpleNamespace(pid=78)
    assert evaluating.cpu_seconds() == 0.0


def test_what_a_process_cannot_do_is_an_error_or_done_here():
    remarks = []
    progress = Progress(lambda event: None)
    progress.remark = remarks.append
    evaluator = new_evaluator_with_fake_process(progress=progress)
    evaluator.evaluate([CATCH], 1_240)
    process = evaluator.process
    process.replies.append({"error": "no memory", "exit_code": 5})
    with pytest.raises(
        ReaperError, match="the evaluation on catch after 1,240 agent steps failed: no memory"
    ) as raised:
        evaluator.poll()
    assert raised.value.exit_code == 5
    process.replies.append({"unknown": "catch"})
    evaluator.poll()
    assert (process.closed, evaluator.process, evaluator.in_this_process) == (True, None, True)
    assert remarks == [
        "training waits for evaluations on catch: no entry point makes it known to other processes",
    ]
    evaluator.evaluate([CATCH], 1_360)
    assert evaluator.process is None
    evaluator.wait_if_behind()
    assert [row["agent_steps"] for row in evaluator.rows] == [1_240, 1_360]
