"""The evaluation process from its own side, run in this one; and when a process counts as starved."""

import json

import pytest
import torch
from evaluations import CATCH, FakeProcess, new_context, new_evaluator_with_fake_process
from safetensors.torch import save

from reaper.context import state_tensors
from reaper.errors import ReaperError, UserError
from reaper.learning.evaluation import concurrent
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
    assert (pace["steps"], pace["whole"]) == (3 * 198, True)
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
