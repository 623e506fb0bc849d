"""Tests during training: at every seam, whole games of every task known so far.

On a CPU, and for small frames anywhere, they are played at once, while training waits. Beside a large network on a GPU
they are played in a process of their own, from a copy of the weights, while training goes on. The rows are the same
function of seed, weights, task and agent steps either way, but for the device that random numbers are drawn on and
rounding is done by.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.context import Context, state_tensors
from reaper.errors import ReaperError
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.evaluation.worker import Answer, EvalJob, EvalProcess, network_as_trained
from reaper.state import Rows
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task

Row = dict[str, Any]  # one test: task, agent steps, scores
# Seams whose tests may be outstanding while training goes on. Each holds a copy of the weights, 7 MB at Atari size.
MOST_PENDING = 8
# Tests more that are not even begun where a quiet time is to come: what plays beside training takes cores from it, but
# while a generator is trained all cores are free. That is time enough for so many; a stage would wait for more.
MOST_HELD = 36
SECONDS_BETWEEN_LOOKS = 0.2  # at a wish to stop, while waiting
PATIENCE = 3.0  # seconds of waiting, after which a process that hardly gets a core is taken for starved
STARVED = 0.5  # of a core: where others take all of them, a patient process would hardly get anywhere


def worth_a_process(settings: Settings, device: torch.device) -> bool:
    """Whether a separate process for evaluations pays. Small games are over before it has started, and on a CPU
    training leaves no core free."""
    return device.type == "cuda" and not is_small(state_spec(settings.observation))


class Evaluator(ABC):
    """Tests a network, and has the rows, seam by seam and task by task. What it still owes is part of a checkpoint."""

    def __init__(self, context: Context, network: torch.nn.Module) -> None:
        self.context, self.network = context, network
        self.rows = Rows()
        self.tested = 0  # how many tests of the next seam are done

    @abstractmethod
    def examine(self, tasks: Sequence[Task], agent_steps: int) -> None:
        """Tests the network as it is now."""

    def collect(self) -> None:  # noqa: B027 - there may be nothing of the kind
        """Takes in what has arrived, without waiting."""

    def keep_up(self) -> None:  # noqa: B027 - there may be nothing of the kind
        """Waits if tests have fallen far behind. For moments at which all parts of a stage fit together."""

    def hold(self) -> None:  # noqa: B027 - there may be nothing of the kind
        """There will be a quiet time, when others leave the cores alone: tests may be put off until then."""

    def release(self) -> None:  # noqa: B027 - there may be nothing of the kind
        """The cores are free from now on."""

    def finish(self) -> list[Row]:
        """Waits for whatever is outstanding."""
        return self.rows

    def close(self) -> None:  # noqa: B027 - there may be nothing of the kind
        """Leaves what is outstanding."""

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def note(self, row: Row) -> None:
        self.rows.append(row)
        mean = sum(row["scores"]) / len(row["scores"])
        self.context.progress.log_curves("evaluation", row["agent_steps"], {row["task"]: mean})

    def state(self) -> dict[str, Any]:
        return {"tested": self.tested, "rows": self.rows.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.tested = state["tested"]
        self.rows.restore(state["rows"])


class BlockingEvaluator(Evaluator):
    """Plays every test on the spot."""

    def __init__(self, context: Context, network: torch.nn.Module) -> None:
        super().__init__(context, network)
        self.owed: list[EvalJob] = []  # by an earlier try of the stage that played its tests beside training

    def examine(self, tasks: Sequence[Task], agent_steps: int) -> None:
        self._pay()
        for task in tasks[self.tested :]:
            row = evaluate(self.context, self.network, task, agent_steps)
            self.tested += 1
            self.note(row)
        self.tested = 0

    def finish(self) -> list[Row]:
        self._pay()
        return self.rows

    def _pay(self) -> None:
        while self.owed:
            job = self.owed[0]
            network = network_as_trained(self.context, job.weights)
            while job.tasks:
                row = evaluate(self.context, network, find_task(job.tasks[0]), job.agent_steps)
                del job.tasks[0]
                self.note(row)
            del self.owed[0]

    def state(self) -> dict[str, Any]:
        return {**super().state(), **({"pending": _described(self.owed)} if self.owed else {})}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.owed = _exams(state)


def _described(jobs: Iterable[EvalJob]) -> dict[str, Any]:
    """Exams as a checkpoint takes them."""
    return {f"{i}": {**vars(job), "tasks": list(job.tasks)} for i, job in enumerate(jobs)}


def _exams(state: dict[str, Any]) -> list[EvalJob]:
    pending = state.get("pending", {})
    return [EvalJob(**pending[number]) for number in sorted(pending, key=int)]


class ConcurrentEvaluator(Evaluator):
    """Hands copies of the network to a process, and takes in rows when they are there."""

    def __init__(self, context: Context, network: torch.nn.Module) -> None:
        super().__init__(context, network)
        self.pending: deque[EvalJob] = deque()  # the oldest first
        self.handed = 0  # how many of them the process has
        self.most_held = 0  # how many tests it need not have yet
        self.process: EvalProcess | None = None
        self.here = False  # the process does not know the tasks, so they are played between seams after all
        self.waited, self.worked = 0.0, 0.0  # seconds of waiting for the next row; what the process had worked before

    def examine(self, tasks: Sequence[Task], agent_steps: int) -> None:
        names = [task.name for task in tasks[self.tested :]]
        self.tested = 0
        if names:
            self._hand_in(EvalJob(agent_steps, names, state_tensors(self.network)))

    def hold(self) -> None:
        self.most_held = MOST_HELD

    def release(self) -> None:
        self.most_held = 0
        self._hand_on()
        if self.process:
            self.process.spread()

    def _hand_in(self, job: EvalJob) -> None:
        self.pending.append(job)
        self._hand_on()

    def _hand_on(self) -> None:
        while not self.here and self._held() > self.most_held:
            self.process = self.process or EvalProcess(self.context)
            self.process.hand_in(self.pending[self.handed])
            self.handed += 1

    def _held(self) -> int:
        return sum(len(job.tasks) for job in itertools.islice(self.pending, self.handed, None))

    def collect(self, seconds: float = 0.0) -> None:
        """And if nothing has arrived, waits so long at most until something has."""
        while self.pending and self.process and self.process.answered(seconds):
            self._take(self.process.receive())
            seconds = 0.0

    def _take(self, answer: Answer) -> None:
        job = self.pending[0]
        if "error" in answer:
            where = f"the test of {job.tasks[0]} after {job.agent_steps:,} agent steps failed"
            error = ReaperError(f"{where}: {answer['error']}")
            error.exit_code = answer["exit_code"]
            raise error
        if "unknown" in answer:  # registered by a script, most likely, and not by a package
            text = f"training waits for tests of {answer['unknown']}: no entry point makes it known to other processes"
            self.context.progress.remark(text)
            self.here = True
            self.close()
            return
        self._done(answer)

    def _done(self, row: Row) -> None:
        job = self.pending[0]
        assert (job.tasks[0], job.agent_steps) == (row["task"], row["agent_steps"])
        del job.tasks[0]
        if not job.tasks:
            self.pending.popleft()
            self.handed = max(0, self.handed - 1)
        self.waited = 0.0
        self.note(row)

    def keep_up(self) -> None:
        while self.pending if self.here else self.handed > MOST_PENDING:
            self._wait()

    def finish(self) -> list[Row]:
        self.release()
        self.collect()
        progress, tests = self.context.progress, sum(len(job.tasks) for job in self.pending)
        if tests:
            progress.begin("the last tests", tests, "tests")
        while self.pending:
            before = len(self.rows)
            self._wait()
            progress.advance(len(self.rows) - before)
        return self.rows

    def _wait(self) -> None:
        """For a moment; a wish to stop is heard in it, and the tests that are outstanding are saved."""
        self.context.checkpointer.maybe_save()
        if self.here:
            job, context = self.pending[0], replace(self.context, device=torch.device("cpu"))
            network = network_as_trained(context, job.weights)
            self._done(evaluate(context, network, find_task(job.tasks[0]), job.agent_steps))
        else:
            self._wait_for_process()

    def _wait_for_process(self) -> None:
        process = self.process
        assert process is not None  # whatever is pending was handed to it
        if not self.waited:
            self.worked = process.worked()
        self.waited += SECONDS_BETWEEN_LOOKS
        self.collect(SECONDS_BETWEEN_LOOKS)
        starving = self.waited > PATIENCE and process.worked() - self.worked < STARVED * self.waited
        if starving and process.patient and not self.here:
            self._hurry()

    def _hurry(self) -> None:
        """The tests that training waits for are worth as much as training itself."""
        self.close()
        self.waited = 0.0
        self.process = EvalProcess(self.context, patient=False)
        self.handed = 0
        self._hand_on()

    def close(self) -> None:
        if self.process:
            self.process.close()
            self.process = None

    def state(self) -> dict[str, Any]:
        return {**super().state(), "pending": _described(self.pending)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for job in _exams(state):
            self._hand_in(job)


def new_evaluator(context: Context, network: torch.nn.Module) -> Evaluator:
    return (ConcurrentEvaluator if context.concurrent_eval else BlockingEvaluator)(context, network)
