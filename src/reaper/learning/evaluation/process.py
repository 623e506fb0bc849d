"""The parent's side of the process that evaluates alongside training (worker.py is the other side).

It has the lowest priority, does not use the GPU, and works through jobs one after the other, so that rows come back in
the order of submission. Messages are JSON, and weights are safetensors. It is started as a program of its own: a user's
script is not imported again, and it gets nothing of its parent but the options below and the context's settings.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

from safetensors.torch import save

from reaper.config.sparse_json import to_json
from reaper.context import Context
from reaper.errors import ReaperError
from reaper.learning.evaluation.jobs import EvalJob
from reaper.system import start_python

Reply = dict[str, Any]  # a row, a pace, an error, or the name of an unknown task

# Threads for the network's forward pass. The cores that training leaves idle are idle at the same moments, for less
# than a millisecond between two steps: one thread would need many such moments, a few threads need few.
MAX_THREADS = 4

# Priority comes before imports, because the threads that libraries start inherit it. With SCHED_IDLE the scheduler
# treats the process's cores as free for training; where that is missing, niceness has to do.
_PROGRAM = """
import json, os, sys
options = json.loads(sys.argv[1])
if options["low_priority"]:
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        pass
sys.path[:] = options["path"]
from reaper.system import start_worker
start_worker(options["parent"], "reaper.learning.evaluation.worker:main", options["pipe"], options["threads"])
"""


class EvalProcess:
    """Submitting a job takes no time, whatever the process is busy with. A process of low priority only gets idle
    cores, and its priority cannot be raised again; that takes a new process."""

    def __init__(self, context: Context, low_priority: bool = True) -> None:
        self.low_priority = low_priority
        self._pipe, theirs = Pipe()
        threads = min(MAX_THREADS, len(os.sched_getaffinity(0)))
        options = {
            "low_priority": low_priority,
            "pipe": theirs.fileno(),
            "parent": os.getpid(),
            "threads": threads,
            "path": sys.path,
        }
        # Passive: threads do not spin. The GPU belongs to training.
        environment = {"OMP_NUM_THREADS": f"{MAX_THREADS}", "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": ""}
        self.process = start_python(_PROGRAM, json.dumps(options), (theirs.fileno(),), environment)
        theirs.close()
        self._outgoing: queue.SimpleQueue[bytes | EvalJob | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="evaluation jobs", daemon=True)
        self._sender.start()
        self._outgoing.put(_describe(context))

    def submit(self, job: EvalJob) -> None:
        self._outgoing.put(EvalJob(job.agent_steps, list(job.tasks), job.weights))

    def run_tasks_concurrently(self) -> None:
        """All cores are idle: the tasks of one job may run at once, so that environments of one task step while the
        network runs for another."""
        self._outgoing.put(json.dumps({"concurrent_tasks": True}).encode())

    def measure(self, task: str, seconds: float, num_evaluations: int = 1) -> None:
        """Measures how fast so many evaluations run at once; the reply is a `Pace` of all of them together."""
        self._outgoing.put(json.dumps({"measure": [task] * num_evaluations, "seconds": seconds}).encode())

    def has_reply(self, seconds: float = 0.0) -> bool:
        """Whether there is a reply, after waiting at most so many seconds."""
        return self._pipe.poll(seconds)

    def cpu_seconds(self) -> float:
        """CPU time used so far; 0 where the system does not report it."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def receive(self) -> Reply:
        try:
            return json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            code = self.process.wait()
        how = f"was killed by signal {-code}, probably for lack of memory" if code < 0 else f"exited with code {code}"
        raise ReaperError(f"the evaluation process {how}; the same command resumes from the last checkpoint")

    def close(self) -> None:
        """Kills the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self._outgoing.put(None)
        self._sender.join()
        self._pipe.close()

    def _send(self) -> None:
        try:
            while (message := self._outgoing.get()) is not None:
                if isinstance(message, EvalJob):
                    header = {"agent_steps": message.agent_steps, "tasks": message.tasks}
                    self._pipe.send_bytes(json.dumps(header).encode())
                    self._pipe.send_bytes(save(message.weights))
                else:
                    self._pipe.send_bytes(message)
        except OSError:
            pass  # the process is gone, as whoever waits for its replies will notice


def _describe(context: Context) -> bytes:
    described = {
        "settings": to_json(context.settings),
        "num_actions": context.num_actions,
        "seed": context.seed,
        "names": context.names,
        "emulator_threads": context.emulator_threads,
        "env_workers": context.env_workers,
    }
    return json.dumps(described).encode()
