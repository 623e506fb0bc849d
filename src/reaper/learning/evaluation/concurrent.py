"""Evaluations that run alongside training."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from reaper.context import Context, state_tensors
from reaper.errors import ReaperError
from reaper.learning.evaluation.base import Evaluator
from reaper.learning.evaluation.episodes import Row, evaluate
from reaper.learning.evaluation.jobs import EvalJob, jobs_from_state, jobs_to_state, network_of
from reaper.learning.evaluation.process import EvalProcess, Reply
from reaper.state import State
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task

# Jobs that may be outstanding while training continues. Each holds a copy of the weights, 7 MB at Atari size.
MAX_PENDING_JOBS = 8
# Evaluations that may be deferred on top of that until a generator is trained. Alongside training they take cores from
# it; then all cores are idle, long enough for so many. A stage would have to wait for more.
MAX_DEFERRED = 36
POLL_SECONDS = 0.2  # between two checks for a stop request, while waiting
STARVATION_SECONDS = 3.0  # of waiting, after which a process that hardly gets a core is considered starved
MIN_CPU_SHARE = 0.5  # of a core, below which it is


class ConcurrentEvaluator(Evaluator):
    """Submits copies of the network to a process, and collects rows as they arrive."""

    def __init__(
        self, context: Context, network: torch.nn.Module, new_process: Callable[..., EvalProcess] = EvalProcess
    ) -> None:
        super().__init__(context, network)
        self._new_process = new_process
        self.process: EvalProcess | None = None
        self.pending: deque[EvalJob] = deque()  # the oldest first
        self.submitted = 0  # how many of them the process has
        self.max_deferred = 0  # evaluations that need not be submitted yet
        self.in_this_process = False  # the process does not know some task, so training waits after all
        self._waited, self._cpu_before = 0.0, 0.0  # for the next row: seconds, and the process's CPU time before

    def evaluate(self, tasks: Sequence[Task], agent_steps: int) -> None:
        names = [task.name for task in tasks[self.tasks_done :]]
        self.tasks_done = 0
        if names:
            self._add_job(EvalJob(agent_steps, names, state_tensors(self.network)))

    def defer(self) -> None:
        self.max_deferred = MAX_DEFERRED

    def run_deferred(self) -> None:
        self.max_deferred = 0
        self._submit()
        if self.process:
            self.process.run_tasks_concurrently()

    def _add_job(self, job: EvalJob) -> None:
        self.pending.append(job)
        self._submit()

    def _submit(self) -> None:
        while not self.in_this_process and self._num_deferred() > self.max_deferred:
            self.process = self.process or self._new_process(self.context)
            self.process.submit(self.pending[self.submitted])
            self.submitted += 1

    def _num_deferred(self) -> int:
        return sum(len(job.tasks) for job in itertools.islice(self.pending, self.submitted, None))

    def poll(self, seconds: float = 0.0) -> None:
        """Collects what has arrived; if nothing has, waits at most so many seconds for it."""
        while self.pending and self.process and self.process.has_reply(seconds):
            self._handle(self.process.receive())
            seconds = 0.0

    def _handle(self, reply: Reply) -> None:
        job = self.pending[0]
        if "error" in reply:
            where = f"the evaluation on {job.tasks[0]} after {job.agent_steps:,} agent steps failed"
            error = ReaperError(f"{where}: {reply['error']}")
            error.exit_code = reply["exit_code"]
            raise error
        if "unknown" in reply:  # most likely registered by a script, and not by a package
            text = "no entry point makes it known to other processes"
            self.context.progress.remark(f"training waits for evaluations on {reply['unknown']}: {text}")
            self.in_this_process = True
            self.close()
            return
        self._complete(reply)

    def _complete(self, row: Row) -> None:
        job = self.pending[0]
        assert (job.tasks[0], job.agent_steps) == (row["task"], row["agent_steps"])
        del job.tasks[0]
        if not job.tasks:
            self.pending.popleft()
            self.submitted = max(0, self.submitted - 1)
        self._waited = 0.0
        self.add(row)

    def wait_if_behind(self) -> None:
        while self.pending if self.in_this_process else self.submitted > MAX_PENDING_JOBS:
            self._wait()

    def finish(self) -> list[Row]:
        self.run_deferred()
        self.poll()
        progress, outstanding = self.context.progress, sum(len(job.tasks) for job in self.pending)
        if outstanding:
            progress.begin("last evaluations", outstanding, "evaluations")
        while self.pending:
            before = len(self.rows)
            self._wait()
            progress.advance(len(self.rows) - before)
        return self.rows

    def _wait(self) -> None:
        """Waits for a moment. A stop request is noticed in it, and outstanding jobs are saved."""
        self.context.checkpointer.maybe_save()
        if self.in_this_process:
            job, context = self.pending[0], replace(self.context, device=torch.device("cpu"))
            self._complete(evaluate(context, network_of(context, job), find_task(job.tasks[0]), job.agent_steps))
        else:
            self._wait_for_process()

    def _wait_for_process(self) -> None:
        process = self.process
        assert process is not None  # every pending job was submitted to it
        if not self._waited:
            self._cpu_before = process.cpu_seconds()
        self._waited += POLL_SECONDS
        self.poll(POLL_SECONDS)
        used = process.cpu_seconds() - self._cpu_before
        starved = self._waited > STARVATION_SECONDS and used < MIN_CPU_SHARE * self._waited
        if starved and process.low_priority and not self.in_this_process:
            self._restart_at_normal_priority()

    def _restart_at_normal_priority(self) -> None:
        """Evaluations that training waits for are as urgent as training itself."""
        self.close()
        self._waited = 0.0
        self.process = self._new_process(self.context, low_priority=False)
        self.submitted = 0
        self._submit()

    def close(self) -> None:
        if self.process:
            self.process.close()
            self.process = None

    def state(self) -> State:
        return {**super().state(), "pending": jobs_to_state(self.pending)}

    def restore(self, state: State) -> None:
        super().restore(state)
        for job in jobs_from_state(state):
            self._add_job(job)
