"""Evaluations that training waits for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reaper.context import Context
from reaper.learning.evaluation.base import Evaluator
from reaper.learning.evaluation.episodes import Row, evaluate
from reaper.learning.evaluation.jobs import EvalJob, jobs_from_state, jobs_to_state, network_of
from reaper.state import State
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task


class BlockingEvaluator(Evaluator):
    """Training waits for every evaluation."""

    def __init__(self, context: Context, network: torch.nn.Module) -> None:
        super().__init__(context, network)
        self.inherited: list[EvalJob] = []  # outstanding when the stage was interrupted, if it evaluated concurrently

    def evaluate(self, tasks: Sequence[Task], agent_steps: int) -> None:
        self._run_inherited()
        for task in tasks[self.tasks_done :]:
            row = evaluate(self.context, self.network, task, agent_steps)
            self.tasks_done += 1
            self.add(row)
        self.tasks_done = 0

    def finish(self) -> list[Row]:
        self._run_inherited()
        return self.rows

    def _run_inherited(self) -> None:
        while self.inherited:
            job = self.inherited[0]
            network = network_of(self.context, job)
            while job.tasks:
                row = evaluate(self.context, network, find_task(job.tasks[0]), job.agent_steps)
                del job.tasks[0]
                self.add(row)
            del self.inherited[0]

    def state(self) -> State:
        return {**super().state(), **({"pending": jobs_to_state(self.inherited)} if self.inherited else {})}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.inherited = jobs_from_state(state)
