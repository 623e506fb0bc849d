"""Tests beside training: the same rows in the same order as at once, late or not, killed or not."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import TINY, run_tiny
from curves import read_curves

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context, state_tensors
from reaper.errors import ReaperError, Stopped, UserError
from reaper.generators import generator_for
from reaper.learning.evaluation import evaluator as examining
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.evaluation.evaluator import (
    MOST_HELD,
    MOST_PENDING,
    BlockingEvaluator,
    ConcurrentEvaluator,
    new_evaluator,
    worth_a_process,
)
from reaper.learning.evaluation.worker import EvalJob, EvalProcess
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm, Teacher
from reaper.memory.long_term import LongTermMemory
from reaper.progress import CurvePoints, Progress, Remark
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import TASKS, find_task, register_task

SETTINGS = with_overrides(ARCADE, TINY)
CATCH, DODGE = find_task("catch"), find_task("dodge")
DIGEST = "0" * 20  # of no stage


def context(beside=True, **parts):
    return Context(SETTINGS, 6, 0, ("short-term", "catch"), concurrent_eval=beside, **parts)


def job(frames=120, tasks=("catch", "dodge"), weights=None):
    return EvalJob(frames, list(tasks), weights or state_tensors(context().q_network()))


@pytest.fixture(scope="module")
def teacher():
    """Whose tests were played at once."""
    return ShortTerm(context(beside=False), CATCH).learn()


@pytest.fixture(scope="module")
def process():
    with closing(EvalProcess(context())) as started:
        yield started


class Slow:
    """Stands in for the process: has answers when it is told to."""

    def __init__(self, context, patient=True):
        self.context, self.jobs, self.answers, self.closed, self.patient = context, [], [], False, patient
        self.on_wait = lambda: None
        self.spread_after: list[int] = []  # so many exams

    def spread(self):
        self.spread_after.append(len(self.jobs))

    def hand_in(self, job):
        self.jobs.append(EvalJob(job.agent_steps, list(job.tasks), job.weights))

    def answer(self, count=1):
        for _ in range(count):
            oldest = self.jobs[0]
            task = oldest.tasks.pop(0)
            self.answers.append({"task": task, "agent_steps": oldest.agent_steps, "scores": [1.0, 2.0]})
            if not oldest.tasks:
                del self.jobs[0]

    def answered(self, seconds=0.0):
        if seconds and not self.answers:
            self.on_wait()
        return bool(self.answers)

    def receive(self):
        return self.answers.pop(0)

    def worked(self):
        return 0.0

    def close(self):
        self.closed = True


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(examining, "EvalProcess", Slow)


# -- the process


def test_rows_are_those_of_evaluate_on_a_cpu(process):
    network = context().q_network()
    for frames in (120, 240):
        process.hand_in(job(frames, weights=state_tensors(network)))
    expected = [evaluate(context(), network, task, frames) for frames in (120, 240) for task in (CATCH, DODGE)]
    assert [process.receive() for _ in expected] == expected
    assert len({tuple(row["scores"]) for row in expected}) > 1  # or they would say nothing


def test_rows_are_the_same_and_in_order_when_tasks_are_played_side_by_side():
    network = context().q_network()
    names = ("dodge", "catch", "shooter")
    with closing(EvalProcess(context())) as process:
        process.measure("catch", 0.0, side_by_side=2)
        assert process.receive()["steps"] == 2  # one each
        process.spread()
        process.hand_in(job(120, names, state_tensors(network)))
        process.hand_in(job(240, ("nothing", "catch"), state_tensors(network)))
        rows = [process.receive() for _ in range(5)]
    assert rows[:3] == [evaluate(context(), network, find_task(name), 120) for name in names]
    assert rows[3] == {"unknown": "nothing"}
    assert rows[4] == evaluate(context(), network, CATCH, 240)


def test_it_gives_way_and_leaves_stops_to_its_parent(process):
    pid = process.process.pid
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    process.hand_in(job(tasks=["catch"]))
    assert process.receive()["task"] == "catch"
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}
    assert b"CUDA_VISIBLE_DEVICES=\0" in Path(f"/proc/{pid}/environ").read_bytes()


def test_an_error_is_one_line(process):
    beside = ConcurrentEvaluator(context(), context().q_network())
    beside.process = process
    beside._hand_in(job(weights={"values.bias": torch.zeros(3)}))
    with pytest.raises(ReaperError, match="the test of catch after 120 agent steps failed: the weights") as caught:
        beside.collect(60.0)
    assert caught.value.exit_code == UserError.exit_code
    assert "\n" not in str(caught.value)
    process.receive()  # what it says of the second task


def test_a_game_that_fails_becomes_the_error_of_the_stage(tmp_path, monkeypatch):
    """Known by a name that says where it is to be imported from, so that the process finds it."""
    (tmp_path / "crashing.py").write_text(
        textwrap.dedent(
            """
            import gymnasium, numpy
            class Crashing(gymnasium.Env):
                observation_space = gymnasium.spaces.Box(0, 255, (16, 16), numpy.uint8)
                action_space = gymnasium.spaces.Discrete(6)
                def reset(self, **words):
                    return numpy.zeros((16, 16), numpy.uint8), {}
                def step(self, action):
                    raise OSError("the cartridge\\nis loose")
            gymnasium.register("Crashing-v0", Crashing)
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    with ConcurrentEvaluator(context(), context().q_network()) as beside:
        beside.examine([find_task("crashing:Crashing-v0")], 120)
        with pytest.raises(ReaperError, match=r"failed: OSError: the cartridge is loose$"):
            beside.finish()
        pid = beside.process.process.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_is_killed_is_said_in_one_line(process):
    with ConcurrentEvaluator(context(), context().q_network()) as beside:
        beside.examine([CATCH], 120)
        beside.process.process.kill()
        with pytest.raises(ReaperError, match=r"was killed by signal 9.* goes on from the last checkpoint$"):
            beside.finish()


def test_a_task_that_only_this_process_knows_is_tested_here(monkeypatch):
    monkeypatch.setattr(TASKS, "_things", dict(TASKS._things))
    mine = type(CATCH)("mine", "Mine", CATCH.num_actions, CATCH.open)
    register_task("mine", mine)
    told = []
    here, network = context(progress=Progress(told.append)), context().q_network()
    with ConcurrentEvaluator(here, network) as beside:
        for frames in (120, 240):
            beside.examine([mine, CATCH], frames)
        rows = beside.finish()
    assert rows == [evaluate(context(), network, task, frames) for frames in (120, 240) for task in (mine, CATCH)]
    assert sum(isinstance(event, Remark) for event in told) == 1


# -- a practice


def test_a_study_ends_with_the_same_bytes_and_curves(tmp_path, tiny_run, monkeypatch):
    """As one whose tests were played at once; these are the stages of its first two tasks."""
    monkeypatch.setattr("reaper.study.stage_run.worth_a_process", lambda settings, device: True)
    run_tiny(tmp_path / "beside", ["RePR"], tasks="catch,dodge")
    names = [path.relative_to(tmp_path / "beside") for path in (tmp_path / "beside" / "stages").rglob("*.*")]
    names = [name for name in names if (tiny_run / name.parent).exists()]  # evaluations are of all tasks of a study
    assert sum(name.name == "rows.json" for name in names) == 6  # teachers, long-term memories, tests of teachers
    for name in names:
        if name.name != "provenance.json":
            assert (tmp_path / "beside" / name).read_bytes() == (tiny_run / name).read_bytes(), name
    at_once, tested = read_curves(tiny_run), 0
    for place, curves in read_curves(tmp_path / "beside").items():
        tests = {tag: points for tag, points in curves.items() if tag.startswith("evaluation")}
        assert all(at_once[place][tag] == points for tag, points in tests.items())
        tested += len(tests)
    assert tested == 4  # each teacher on its task, and the long-term agent on both


def test_late_rows_keep_their_order_and_training_waits_for_the_oldest_alone(slow):
    told = []
    beside = ConcurrentEvaluator(context(progress=Progress(told.append)), context().q_network())
    for seam in range(MOST_PENDING):
        beside.examine([CATCH, DODGE], 120 * (seam + 1))
        beside.keep_up()  # does not wait
    beside.collect()
    assert beside.rows == []
    waited = []
    beside.process.on_wait = lambda: (waited.append(len(beside.pending)), beside.process.answer())
    beside.examine([CATCH, DODGE], 120 * (MOST_PENDING + 1))
    beside.keep_up()
    assert waited == [MOST_PENDING + 1] * 2  # for both tests of the first seam
    assert [(row["agent_steps"], row["task"]) for row in beside.rows] == [(120, "catch"), (120, "dodge")]
    beside.process.answer(3)
    beside.collect()
    assert len(beside.rows) == 5
    assert len(beside.finish()) == 2 * (MOST_PENDING + 1)
    measured = [(event.step, *event.values) for event in told if isinstance(event, CurvePoints)]
    assert measured == [(row["agent_steps"], f"evaluation/{row['task']}") for row in beside.rows]


def test_tests_are_put_off_where_a_quiet_time_is_to_come(slow):
    beside = ConcurrentEvaluator(context(), context().q_network())
    beside.hold()
    for seam in range(MOST_HELD):
        beside.examine([CATCH], seam + 1)
        beside.keep_up()
    assert beside.process is None  # not even begun
    beside.examine([CATCH], MOST_HELD + 1)
    assert [job.agent_steps for job in beside.process.jobs] == [1]  # the oldest alone
    beside.process.answer()
    beside.collect()
    again = ConcurrentEvaluator(context(), context().q_network())
    again.hold()
    again.restore(beside.state())
    for evaluator in (beside, again):
        evaluator.release()
        assert [job.agent_steps for job in evaluator.process.jobs] == list(range(2, MOST_HELD + 2))
        assert evaluator.process.spread_after == [MOST_HELD]
        evaluator.process.on_wait = evaluator.process.answer
        assert [row["agent_steps"] for row in evaluator.finish()] == list(range(1, MOST_HELD + 2))


def test_the_more_tasks_are_known_the_fewer_seams_are_put_off(slow):
    beside = ConcurrentEvaluator(context(), context().q_network())
    beside.hold()
    for seam in range(MOST_HELD // 2):
        beside.examine([CATCH, DODGE], seam + 1)
    assert beside.process is None
    beside.examine([CATCH, DODGE], MOST_HELD // 2 + 1)
    assert [job.agent_steps for job in beside.process.jobs] == [1]


def test_tests_that_are_put_off_fall_behind_only_so_far(slow):
    beside = ConcurrentEvaluator(context(), context().q_network())
    beside.hold()
    for seam in range(MOST_HELD + MOST_PENDING):
        beside.examine([CATCH], seam + 1)
        beside.keep_up()
    assert beside.rows == []
    beside.process.on_wait = beside.process.answer
    beside.examine([CATCH], MOST_HELD + MOST_PENDING + 1)
    beside.keep_up()
    assert [row["agent_steps"] for row in beside.rows] == [1]


@pytest.mark.parametrize("name", ["RePR", "no-reh"])
def test_only_a_consolidation_that_trains_a_generator_puts_its_tests_off(name, monkeypatch):
    told = []
    monkeypatch.setattr(ConcurrentEvaluator, "hold", lambda self: told.append("hold"))
    monkeypatch.setattr(ConcurrentEvaluator, "release", lambda self: told.append("release"))
    monkeypatch.setattr(ConcurrentEvaluator, "finish", lambda self: told.append("finish") or [])
    monkeypatch.setattr(ConcurrentEvaluator, "examine", lambda self, tasks, frames: told.append("examine"))
    condition, agent = CONDITIONS[name], state_tensors(context().q_network())
    generator = {f"generator.{part}": t for part, t in generator_for(SETTINGS).untrained(context()).state().items()}
    knowledge, teacher = condition.make_knowledge(), Teacher(agent, 0.0, 1.0)
    retention = condition.make_retention(SETTINGS)
    consolidation = Consolidation(context(), (DODGE, CATCH), condition.make_objective(), retention, knowledge, teacher)
    consolidation.run(LongTermMemory(agent, ("dodge",), generator))
    expected = ["hold"] if name == "RePR" else []
    assert told == [*expected, "examine", "examine", "release", "finish"]


def test_it_tells_how_long_it_has_worked(process):
    before = process.worked()
    assert 0 < before < 600
    process.measure("catch", 1.0)
    process.receive()
    assert process.worked() > before


def test_a_test_that_is_waited_for_in_vain_is_played_at_full_priority(monkeypatch):
    started = []

    def start(context, patient=True):
        started.append((Slow if patient else EvalProcess)(context, patient=patient))
        return started[-1]

    monkeypatch.setattr(examining, "EvalProcess", start)
    network = context().q_network()
    with ConcurrentEvaluator(context(), network) as beside:
        beside.examine([CATCH, DODGE], 120)
        assert beside.finish() == [evaluate(context(), network, task, 120) for task in (CATCH, DODGE)]
        starved, hurried = started
        assert starved.closed
        assert os.getpriority(os.PRIO_PROCESS, hurried.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)


def test_weights_are_those_of_the_seam(slow):
    network = context().q_network()
    beside, before = ConcurrentEvaluator(context(), network), state_tensors(network)
    beside.examine([CATCH], 120)
    with torch.no_grad():
        network.values.bias.fill_(7.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in beside.process.jobs[0].weights.items())


def test_a_stop_saves_what_is_outstanding_and_waits_for_nothing(tmp_path, teacher, monkeypatch):
    shelf, asked = CheckpointDir(tmp_path / "d", DIGEST), []
    with monkeypatch.context() as patch:
        patch.setattr(examining, "EvalProcess", Slow)
        patch.setattr(Slow, "answered", lambda self, seconds=0.0: bool(seconds and asked.append(seconds)))
        learner = ShortTerm(context(checkpointer=Checkpointer(shelf, Interval(10**9), stop=lambda: bool(asked))), CATCH)
        with pytest.raises(Stopped):
            learner.learn()
        assert [job.agent_steps for job in learner.trainer.evaluator.pending] == [120, 240]
        assert learner.trainer.evaluator.process is None  # closed
    told = []
    checkpointer, progress = Checkpointer(shelf, Interval(10**9)), Progress(told.append)
    again = ShortTerm(context(checkpointer=checkpointer, progress=progress), CATCH).learn()
    assert again.rows == teacher.rows
    assert all(torch.equal(tensor, teacher.weights[name]) for name, tensor in again.weights.items())
    assert [event.step for event in told if isinstance(event, CurvePoints)] == [120, 240]


KILLED = """
import os, signal, sys
from pathlib import Path
from test_evaluator import CATCH, DIGEST, CheckpointDir, Checkpointer, Interval, ShortTerm, context
written = CheckpointDir.write
def write(self, tensors, others):
    written(self, tensors, others)
    if "trainer/pending/0/tasks" in others:
        print(learner.trainer.evaluator.process.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
CheckpointDir.write = write
checkpointer = Checkpointer(CheckpointDir(Path(sys.argv[1]), DIGEST), Interval(None, 24))
learner = ShortTerm(context(checkpointer=checkpointer), CATCH)
learner.learn()
"""


def test_after_a_kill_the_process_is_gone_and_the_tests_are_played_again(tmp_path, teacher):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    words = [sys.executable, "-c", KILLED, str(tmp_path / "d")]
    killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    end = time.monotonic() + 10
    while alive(killed.stdout.strip()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(killed.stdout.strip())
    saved = json.loads(
        (tmp_path / "d" / str(max(CheckpointDir(tmp_path / "d", DIGEST).numbers())) / "others.json").read_text()
    )
    assert saved["trainer/pending/0/tasks"] == ["catch"]
    assert saved["trainer/rows/rows"] == []
    checkpointer = Checkpointer(CheckpointDir(tmp_path / "d", DIGEST))
    assert ShortTerm(context(checkpointer=checkpointer), CATCH).learn().rows == teacher.rows


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- which of the two


def test_worth_a_process_large_networks_on_a_gpu():
    assert worth_a_process(PAPER, torch.device("cuda"))
    assert not worth_a_process(PAPER, torch.device("cpu"))
    assert not worth_a_process(ARCADE, torch.device("cuda"))
    assert isinstance(new_evaluator(context(beside=True), torch.nn.Linear(1, 1)), ConcurrentEvaluator)
    assert isinstance(new_evaluator(context(beside=False), torch.nn.Linear(1, 1)), BlockingEvaluator)


def test_a_checkpoint_of_the_other_way(slow):
    """One from a time when all tests were played at once is taken up; outstanding tests are never dropped."""
    row = {"task": "catch", "agent_steps": 120, "scores": [1.0]}
    beside = ConcurrentEvaluator(context(), context().q_network())
    beside.restore({"tested": 1, "rows": {"rows": [row]}})
    beside.examine([CATCH, DODGE], 120)
    assert beside.pending[0].tasks == ["dodge"]


def test_tests_that_were_owed_are_played_at_once_by_whoever_takes_the_stage_up(slow):
    then, now = context(), replace(context(), seed=7)  # an agent that has learnt on, meanwhile
    beside = ConcurrentEvaluator(then, then.q_network())
    beside.examine([CATCH, DODGE], 120)
    beside.examine([CATCH], 240)
    at_once = BlockingEvaluator(then, now.q_network())
    at_once.restore(beside.state())
    assert at_once.state()["pending"].keys() == beside.state()["pending"].keys()  # a second stop loses nothing
    at_once.examine([CATCH], 360)
    agents = [then.q_network()] * 3 + [now.q_network()]
    asked = [(CATCH, 120), (DODGE, 120), (CATCH, 240), (CATCH, 360)]
    assert at_once.finish() == [evaluate(then, agent, *job) for agent, job in zip(agents, asked, strict=True)]
    assert "pending" not in at_once.state()
