"""A process that steps some copies of an environment, from its own side (env_workers.py is the parent's).

It reads actions from shared memory and writes what they led to there. Messages only say when: one byte, and an error in
JSON. It ends when its pipe is closed, and with its parent.
"""

from __future__ import annotations

import json
import mmap
import traceback
from multiprocessing.connection import Connection
from typing import Any

from gymnasium.envs.registration import EnvSpec

from reaper.tasks.env_group import EnvGroup, arrays_in, make_copy

STEP, DONE = b"s", b"d"  # any other message to the worker is the seed of a reset; any other reply is an error


def main(options: dict[str, Any]) -> None:
    connection = Connection(options["pipe"])
    shared = mmap.mmap(options["memory"], 0)
    arrays = arrays_in(memoryview(shared), options["num_envs"], options["shape"], options["dtype"])
    first, last = options["rows"]
    try:
        spec = EnvSpec.from_json(options["spec"])
        group = EnvGroup([make_copy(spec) for _ in range(first, last)], arrays.rows(first, last))
        while True:
            message = connection.recv_bytes()
            if message == STEP:
                group.step()
            else:
                group.reset(int(message) + first)
            connection.send_bytes(DONE)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent has closed the environments, or is gone
    except Exception as error:
        report = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        connection.send_bytes(json.dumps(report).encode())
