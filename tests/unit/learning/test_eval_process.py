"""The evaluation process: rows, priority, errors."""

import os
import signal
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
import torch
from evaluations import CATCH, DODGE, FakeProcess, new_context, new_job

from reaper.context import state_tensors
from reaper.errors import ReaperError, UserError
from reaper.learning.evaluation.concurrent import ConcurrentEvaluator
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.evaluation.process import EvalProcess
from reaper.progress import Progress, Remark
from reaper.tasks.sequence import TASKS, find_task, register_task


@pytest.fixture(scope="module")
def process():
    with closing(EvalProcess(new_context())) as started:
        yield started


def test_rows_are_those_of_evaluate_on_a_cpu(process):
    context = new_context()
    network = context.q_network()
    for agent_steps in (120, 240):
        process.submit(new_job(agent_steps, weights=state_tensors(network)))
    expected = [evaluate(context, network, task, steps) for steps in (120, 240) for task in (CATCH, DODGE)]
    assert [process.receive() for _ in expected] == expected
    assert len({tuple(row["scores"]) for row in expected}) > 1  # or equality would mean nothing


@pytest.mark.long
def test_rows_keep_their_order_when_tasks_run_concurrently():
    context, names = new_context(), ("dodge", "catch", "shooter")
    network = context.q_network()
    with closing(EvalProcess(context)) as process:
        process.measure("catch", 0.0, num_evaluations=2)
        assert process.receive()["steps"] == 2  # one each
        process.run_tasks_concurrently()
        process.submit(new_job(120, names, state_tensors(network)))
        process.submit(new_job(240, ("nothing", "catch"), state_tensors(network)))
        rows = [process.receive() for _ in range(5)]
    assert rows[:3] == [evaluate(context, network, find_task(name), 120) for name in names]
    assert rows[3] == {"unknown": "nothing"}
    assert rows[4] == evaluate(context, network, CATCH, 240)


def test_it_has_low_priority_no_gpu_and_leaves_stops_to_its_parent(process):
    pid = process.process.pid
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    process.submit(new_job(tasks=["catch"]))
    assert process.receive()["task"] == "catch"
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}
    assert b"CUDA_VISIBLE_DEVICES=\0" in Path(f"/proc/{pid}/environ").read_bytes()


def test_an_error_is_one_line(process):
    context = new_context()
    evaluator = ConcurrentEvaluator(context, context.q_network())
    evaluator.process = process
    evaluator._add_job(new_job(weights={"values.bias": torch.zeros(3)}))
    match = "the evaluation on catch after 120 agent steps failed: the weights"
    with pytest.raises(ReaperError, match=match) as caught:
        evaluator.poll(60.0)
    assert caught.value.exit_code == UserError.exit_code
    assert "\n" not in str(caught.value)
    process.receive()  # the error of the second task


def test_an_environment_that_fails_becomes_the_error_of_the_stage(tmp_path, monkeypatch):
    """Its name states where to import it from, so that the process finds it."""
    (tmp_path / "crashing.py").write_text(
        textwrap.dedent(
            """
            import gymnasium, numpy
            class Crashing(gymnasium.Env):
                observation_space = gymnasium.spaces.Box(0, 255, (16, 16), numpy.uint8)
                action_space = gymnasium.spaces.Discrete(6)
                def reset(self, **options):
                    return numpy.zeros((16, 16), numpy.uint8), {}
                def step(self, action):
                    raise OSError("the cartridge\\nis loose")
            gymnasium.register("Crashing-v0", Crashing)
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    context = new_context()
    with ConcurrentEvaluator(context, context.q_network()) as evaluator:
        evaluator.evaluate([find_task("crashing:Crashing-v0")], 120)
        with pytest.raises(ReaperError, match=r"failed: OSError: the cartridge is loose; the same command resumes"):
            evaluator.finish()
        pid = evaluator.process.process.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_killed_process_is_reported_in_one_line():
    context = new_context()
    with ConcurrentEvaluator(context, context.q_network()) as evaluator:
        evaluator.evaluate([CATCH], 120)
        evaluator.process.process.kill()
        with pytest.raises(ReaperError, match=r"was killed by signal 9.* resumes from the last checkpoint$"):
            evaluator.finish()


def test_a_task_that_only_this_process_knows_is_evaluated_here(monkeypatch):
    monkeypatch.setattr(TASKS, "_things", dict(TASKS._things))
    mine = type(CATCH)("mine", "Mine", CATCH.num_actions, CATCH.open, CATCH.observation)
    register_task("mine", mine)
    events = []
    context = new_context(progress=Progress(events.append))
    network = context.q_network()
    with ConcurrentEvaluator(context, network) as evaluator:
        for agent_steps in (120, 240):
            evaluator.evaluate([mine, CATCH], agent_steps)
        rows = evaluator.finish()
    assert rows == [evaluate(new_context(), network, task, steps) for steps in (120, 240) for task in (mine, CATCH)]
    assert sum(isinstance(event, Remark) for event in events) == 1


def test_it_reports_its_cpu_time(process):
    before = process.cpu_seconds()  # in hundredths of a second, so it may still be zero
    process.measure("catch", 1.0)
    process.receive()
    assert before < process.cpu_seconds() < 600


def test_a_starved_process_is_replaced_by_one_of_normal_priority():
    started = []

    def start(context, low_priority=True):
        started.append((FakeProcess if low_priority else EvalProcess)(context, low_priority=low_priority))
        return started[-1]

    context = new_context()
    network = context.q_network()
    with ConcurrentEvaluator(context, network, new_process=start) as evaluator:
        evaluator.evaluate([CATCH, DODGE], 120)
        assert evaluator.finish() == [evaluate(context, network, task, 120) for task in (CATCH, DODGE)]
        starved, replacement = started
        assert starved.closed
        assert os.getpriority(os.PRIO_PROCESS, replacement.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
