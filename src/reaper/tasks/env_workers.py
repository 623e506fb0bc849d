"""Processes that step copies of an environment together: each a group of them, in memory that all share.

The processes are programs of their own, so that nothing of a parent with threads or a GPU is copied into them. They
know an environment by its Gymnasium spec, as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from typing import IO, NoReturn

from gymnasium.envs.registration import EnvSpec

from reaper.errors import EnvironmentFailed
from reaper.system import start_python
from reaper.tasks.env_group import StepArrays, arrays_in, buffer_size
from reaper.tasks.env_worker import DONE, STEP

_PROGRAM = """
import json, sys
options = json.loads(sys.argv[1])
sys.path[:] = options["path"]
from reaper.system import start_worker
start_worker(options["parent"], "reaper.tasks.env_worker:main", options, watch_thread=True)
"""


def spec_for_workers(spec: EnvSpec) -> str | None:
    """The spec as JSON; None if another process cannot know the environment, such as one defined in a script."""
    try:
        return replace(spec, entry_point=_importable(spec.entry_point), vector_entry_point=None).to_json()
    except (TypeError, ValueError):
        return None


def _importable(entry_point: object) -> str | None:
    """`module:name`, by which another process can import it."""
    if entry_point is None or isinstance(entry_point, str):
        return entry_point
    module, name = getattr(entry_point, "__module__", "__main__"), getattr(entry_point, "__qualname__", "")
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not entry_point:
        raise ValueError("not importable by its name")
    return f"{module}:{name}"


class EnvWorkers:
    """Steps `num_envs` copies of an environment in several processes."""

    def __init__(self, name: str, spec: str, num_envs: int, *, shape: Sequence[int], dtype: str, workers: int) -> None:
        self.name = name
        with _shared_file(buffer_size(num_envs, shape, dtype)) as file:
            self.arrays = arrays_in(memoryview(mmap.mmap(file.fileno(), 0)), num_envs, shape, dtype)
            common = {"spec": spec, "num_envs": num_envs, "shape": list(shape), "dtype": dtype, "path": sys.path}
            common |= {"memory": file.fileno(), "parent": os.getpid()}
            self.pipes: list[Connection] = []
            self.processes = []
            ends = [num_envs * (i + 1) // workers for i in range(workers)]
            for rows in zip([0, *ends], ends, strict=False):
                ours, theirs = Pipe()
                options = json.dumps({**common, "rows": rows, "pipe": theirs.fileno()})
                descriptors = (file.fileno(), theirs.fileno())
                self.processes.append(start_python(_PROGRAM, options, descriptors, {"OMP_NUM_THREADS": "1"}))
                self.pipes.append(ours)
                theirs.close()

    def reset(self, seed: int) -> StepArrays:
        self._tell_all(str(seed).encode())
        return self.receive()

    def send(self, actions: object) -> None:
        self.arrays.actions[:] = actions
        self._tell_all(STEP)

    def receive(self) -> StepArrays:
        """A copy: the workers overwrite the arrays as soon as the next step starts."""
        for number, pipe in enumerate(self.pipes):
            try:
                reply = pipe.recv_bytes()
            except (EOFError, OSError):
                self._fail(number)
            if reply != DONE:
                self._fail(number, reply)
        return self.arrays.copy()

    def _tell_all(self, message: bytes) -> None:
        for number, pipe in enumerate(self.pipes):
            try:
                pipe.send_bytes(message)
            except OSError:
                self._fail(number, pipe.recv_bytes() if pipe.poll() else None)

    def _fail(self, number: int, report: bytes | None = None) -> NoReturn:
        """Ends all workers, and says why one has failed."""
        told = json.loads(report) if report else {}
        code = None if report else self.processes[number].wait()
        self.close()
        if report:
            raise EnvironmentFailed.of(self.name, told["error"], told["traceback"])
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        raise EnvironmentFailed.of(self.name, f"a process that steps it {how}")

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.kill()
            process.wait()
        self.pipes, self.processes = [], []


def _shared_file(num_bytes: int) -> IO[bytes]:
    """A file without a name, in memory where the system has such a place: it is gone with the last process."""
    for folder in ("/dev/shm", None):
        try:
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller closes it
        except OSError:
            continue
        try:
            os.posix_fallocate(file.fileno(), 0, num_bytes)  # a write to memory that is not there would kill us
        except AttributeError:
            file.truncate(num_bytes)
        except OSError:
            file.close()
            continue
        return file
    raise EnvironmentFailed("there is no space for memory that processes share; use --env-workers 0")
