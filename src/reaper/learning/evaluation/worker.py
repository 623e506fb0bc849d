"""The process that plays tests beside training, seen from both sides.

It has the lowest priority, keeps off the GPU, and works through exams one after the other, so rows
come back in the order in which exams were handed in. Both sides speak JSON, and weights are safetensors. It is started
as a program of its own: a user's script is not imported again, and nothing of the parent but its settings comes with
it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from reaper.compute.optimiser import FlatWeights
from reaper.config.sparse_json import from_json, to_json
from reaper.context import Context
from reaper.errors import ReaperError, UserError
from reaper.learning.evaluation.episodes import Pace, evaluate, measure_pace
from reaper.system import die_with_parent
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task, VectorTask

Answer = dict[str, Any]

# To ask the network, at most. The cores that training leaves free are free all at once, for less than a millisecond
# between two steps of its games: one thread would have to wait for many such moments, a few threads for few.
THREADS = 4

# Priority comes first: the threads that libraries start when they are imported inherit it. To the scheduler a core is
# free for training where nothing but SCHED_IDLE runs; where there is no such thing, being nice has to do.
_PROGRAM = """
import os, sys
if sys.argv[3] == "patient":
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        pass
sys.path[:] = sys.argv[4:]
from reaper.learning.evaluation.worker import main
main()
"""


@dataclass
class EvalJob:
    """An agent as it was after so many agent steps, and the tasks it is still to be tested on."""

    agent_steps: int
    tasks: list[str]
    weights: dict[str, torch.Tensor]  # on the CPU


def network_as_trained(context: Context, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """Laid out in memory as in training, so that the same kernels round alike."""
    return FlatWeights(context.q_network(weights)).network


class EvalProcess:
    """The parent's side. Handing in an exam takes no time, whatever the process is busy with. A patient one works only
    where cores are free: what has once become patient may not become anything else, so hurrying takes a new process."""

    def __init__(self, context: Context, patient: bool = True) -> None:
        self.patient = patient
        self._line, theirs = Pipe()
        how = [str(theirs.fileno()), str(os.getpid()), "patient" if patient else "hurried"]
        words = [sys.executable, "-c", _PROGRAM, *how, *sys.path]
        threads = {"OMP_NUM_THREADS": f"{THREADS}", "OMP_WAIT_POLICY": "PASSIVE"}  # passive: none spins for others
        environment = {**os.environ, **threads, "CUDA_VISIBLE_DEVICES": ""}  # nothing of the GPU is taken
        # Signals that ask a run to stop are the parent's business; blocked ones stay blocked in the child.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._outgoing: queue.SimpleQueue[bytes | EvalJob | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="exams", daemon=True)
        self._sender.start()
        self._outgoing.put(_described(context))

    def hand_in(self, job: EvalJob) -> None:
        self._outgoing.put(EvalJob(job.agent_steps, list(job.tasks), job.weights))

    def spread(self) -> None:
        """Nobody else wants the cores: it may play the tasks of an exam side by side, so that games of one move while
        the network is asked for another."""
        self._outgoing.put(json.dumps({"spread": True}).encode())

    def measure(self, task: str, seconds: float, side_by_side: int = 1) -> None:
        """Asks how quickly so many tests are played here and now; the answer is a `Pace`, of all of them together."""
        self._outgoing.put(json.dumps({"measure": [task] * side_by_side, "seconds": seconds}).encode())

    def answered(self, seconds: float = 0.0) -> bool:
        """Whether there is something to receive, after waiting for so long at most."""
        return self._line.poll(seconds)

    def worked(self) -> float:
        """Seconds of a core that it has had so far; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def receive(self) -> Answer:
        try:
            return json.loads(self._line.recv_bytes())
        except (EOFError, OSError):
            code = self.process.wait()
        how = f"was killed by signal {-code}, most likely for want of memory" if code < 0 else f"ended with code {code}"
        raise ReaperError(f"the process that plays tests {how}; the same command goes on from the last checkpoint")

    def close(self) -> None:
        """Ends it at once, whatever it plays."""
        self.process.kill()
        self.process.wait()
        self._outgoing.put(None)
        self._sender.join()
        self._line.close()

    def _send(self) -> None:
        try:
            while (order := self._outgoing.get()) is not None:
                if isinstance(order, EvalJob):
                    about = {"agent_steps": order.agent_steps, "tasks": order.tasks}
                    self._line.send_bytes(json.dumps(about).encode())
                    self._line.send_bytes(save(order.weights))
                else:
                    self._line.send_bytes(order)
        except OSError:
            pass  # it is gone, as whoever waits for its answers will see


def _described(context: Context) -> bytes:
    about = {"num_actions": context.num_actions, "seed": context.seed, "names": context.names}
    return json.dumps({**about, "settings": to_json(context.settings)}).encode()


# -- the other side


def main() -> None:
    line, parent = Connection(int(sys.argv[1])), int(sys.argv[2])
    die_with_parent(parent)
    torch.set_num_threads(threads())
    try:
        about = json.loads(line.recv_bytes())
        context = Context(from_json(about["settings"]), about["num_actions"], about["seed"], tuple(about["names"]))
        worker = EvalWorker(context, line)
        while True:
            worker.work(json.loads(line.recv_bytes()))
    except (EOFError, OSError):
        pass  # nobody is there any more


@dataclass
class EvalWorker:
    """Where exams are taken. Games stay open from one test to the next: to open 30 Atari games takes seconds."""

    context: Context
    line: Connection
    games: dict[tuple[str, int], VectorTask] = field(default_factory=dict)
    spread: bool = False

    def work(self, order: dict[str, Any]) -> None:
        if "spread" in order:
            self.spread = True
        elif "measure" in order:
            self.tell(self.pace(order["measure"], order["seconds"])._asdict())
        else:
            self.examine(load(self.line.recv_bytes()), order["tasks"], order["agent_steps"])

    def examine(self, weights: dict[str, torch.Tensor], names: list[str], agent_steps: int) -> None:
        for answer in map_tasks(lambda name: self.tested(weights, name, agent_steps), names, self.spread):
            self.tell(answer)

    def pace(self, names: list[str], seconds: float) -> Pace:
        def one(place: int) -> Pace:
            task = find_task(names[place])
            return measure_pace(self.context, self.context.q_network(), task, seconds, self.opened(task, place))

        paces = map_tasks(one, list(range(len(names))), at_once=True)
        beginnings, steps, took, whole = zip(*paces, strict=True)
        return Pace(max(beginnings), sum(steps), max(took), all(whole))

    def tell(self, answer: Answer) -> None:
        self.line.send_bytes(json.dumps(answer).encode())

    def opened(self, task: Task, place: int = 0) -> VectorTask:
        if (task.name, place) not in self.games:
            self.games[task.name, place] = self.context.open(task, self.context.settings.evaluation.episodes)
        return self.games[task.name, place]

    def tested(self, weights: dict[str, torch.Tensor], name: str, agent_steps: int) -> Answer:
        """A row of results, or why there is none."""
        try:
            task = _task(name)
            if task is None:
                return {"unknown": name}
            network = network_as_trained(self.context, weights)
            return evaluate(self.context, network, task, agent_steps, self.opened(task))
        except ReaperError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return {"error": text, "exit_code": ReaperError.exit_code}


def map_tasks(work: Callable[[Any], Any], pieces: list[Any], at_once: bool) -> Iterator[Any]:
    """Results, in the order of the pieces."""
    if not at_once:
        yield from map(work, pieces)
        return
    # How many cores torch takes is a thread's own business.
    with ThreadPoolExecutor(len(pieces), initializer=torch.set_num_threads, initargs=(threads(),)) as pool:
        yield from pool.map(work, pieces)


def threads() -> int:
    return min(THREADS, len(os.sched_getaffinity(0)))


def _task(name: str) -> Task | None:
    try:
        return find_task(name)
    except UserError:
        return None  # the parent has found it, so it was registered there
