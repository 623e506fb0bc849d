"""The process that evaluates alongside training, from its own side (process.py is the parent's)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch
from safetensors.torch import load

from reaper.config.sparse_json import from_json
from reaper.context import Context
from reaper.errors import ReaperError, UserError
from reaper.learning.evaluation.episodes import Pace, evaluate, measure_pace
from reaper.learning.evaluation.jobs import EvalJob, network_of
from reaper.learning.evaluation.process import Reply
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task, VectorTask


def main(pipe: int, threads: int) -> None:
    """`pipe` is a file descriptor; `threads` run a forward pass."""
    connection = Connection(pipe)
    torch.set_num_threads(threads)
    try:
        worker = EvalWorker(_read_context(connection), connection, threads)
        while True:
            worker.handle(json.loads(connection.recv_bytes()))
    except (EOFError, OSError):
        pass  # the parent is gone


def _read_context(connection: Connection) -> Context:
    given = json.loads(connection.recv_bytes())
    return Context(
        settings=from_json(given["settings"]),
        num_actions=given["num_actions"],
        seed=given["seed"],
        names=tuple(given["names"]),
        emulator_threads=given["emulator_threads"],
        env_workers=given["env_workers"],
    )


@dataclass
class EvalWorker:
    """Runs jobs. Environments stay open between evaluations: opening 30 Atari environments takes seconds."""

    context: Context
    connection: Connection
    threads: int
    envs: dict[tuple[str, int], VectorTask] = field(default_factory=dict)
    concurrent_tasks: bool = False

    def handle(self, message: dict[str, Any]) -> None:
        if "concurrent_tasks" in message:
            self.concurrent_tasks = True
        elif "measure" in message:
            self.reply(self.pace(message["measure"], message["seconds"])._asdict())
        else:
            self.run(EvalJob(message["agent_steps"], message["tasks"], load(self.connection.recv_bytes())))

    def run(self, job: EvalJob) -> None:
        for reply in self._map(lambda name: self.evaluate(job, name), job.tasks, self.concurrent_tasks):
            self.reply(reply)

    def evaluate(self, job: EvalJob, name: str) -> Reply:
        """A row of results, or why there is none."""
        try:
            task = _find(name)
            if task is None:
                return {"unknown": name}
            network = network_of(self.context, job)
            return evaluate(self.context, network, task, job.agent_steps, self.open(task))
        except ReaperError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return {"error": text, "exit_code": ReaperError.exit_code}

    def pace(self, names: list[str], seconds: float) -> Pace:
        """Of evaluations on all these tasks at once."""

        def measure(number: int) -> Pace:
            task = find_task(names[number])
            return measure_pace(self.context, self.context.q_network(), task, seconds, self.open(task, number))

        paces = self._map(measure, list(range(len(names))), concurrently=True)
        startups, steps, took, whole = zip(*paces, strict=True)
        return Pace(max(startups), sum(steps), max(took), all(whole))

    def reply(self, reply: Reply) -> None:
        self.connection.send_bytes(json.dumps(reply).encode())

    def open(self, task: Task, number: int = 0) -> VectorTask:
        """The environments of a task; a `number` other than 0 opens another set of them."""
        if (task.name, number) not in self.envs:
            self.envs[task.name, number] = self.context.open(task, self.context.settings.evaluation.episodes)
        return self.envs[task.name, number]

    def _map(self, function: Callable[[Any], Any], items: list[Any], concurrently: bool) -> Iterator[Any]:
        """The results, in the order of the items."""
        if not concurrently:
            yield from map(function, items)
            return
        # torch counts its threads per Python thread.
        with ThreadPoolExecutor(len(items), initializer=torch.set_num_threads, initargs=(self.threads,)) as pool:
            yield from pool.map(function, items)


def _find(name: str) -> Task | None:
    try:
        return find_task(name)
    except UserError:
        return None  # the parent found it, so it was registered there
