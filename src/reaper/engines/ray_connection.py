"""Connecting to a Ray cluster, or starting one on this machine, and checking what it can run."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import RayError

from reaper.errors import UserError

SECONDS_TO_CONNECT = 5.0
SECONDS_TO_ANSWER = 20.0


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to the cluster at `address`, or to one that is started for this study."""
    if ray.is_initialized():  # by the calling program, which also shuts it down
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS", "")
    with _signal_handlers_restored():
        _start() if address in ("", "local") else _connect(address)
    try:
        yield
    finally:
        ray.shutdown()


def _start() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    cores = len(os.sched_getaffinity(0))
    ray.init("local", num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


def _connect(address: str) -> None:
    if address != "auto":
        _check_listening(address)
    _check_answering(address)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise _unreachable(address, " ".join(str(error).split())[:300]) from None


def _check_listening(address: str) -> None:
    """Fails at once where Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"--ray.address takes HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, getattr(error, "strerror", None) or str(error)) from None


def _check_answering(address: str) -> None:
    """Asks in a separate process, because Ray has no timeout for this."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from reaper.system import start_worker; "
        f"start_worker({os.getpid()}, 'ray.scripts.scripts:main')"
    )
    asking = [sys.executable, "-c", program, "status", "--address", address]
    try:
        answer = subprocess.run(asking, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER)
    except subprocess.TimeoutExpired:
        raise _unreachable(address, "no answer") from None
    if "AuthenticationError" in answer.stderr:
        raise UserError(
            f"the Ray cluster at {address} needs a token; see Ray's documentation (RAY_AUTH_MODE=token, and the token "
            "on every node)"
        )
    if answer.returncode:
        raise _unreachable(address, "no cluster answers")


def _unreachable(address: str, reason: str) -> UserError:
    return UserError(f"no Ray cluster at {address} ({reason}); `ray start --head` starts one and prints its address")


@contextmanager
def _signal_handlers_restored() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM when it connects; this restores ours."""
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if here else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def resolve_device(name: str) -> str:
    """`auto` is the GPU if the cluster has one."""
    if name == "auto":
        return "cuda" if ray.cluster_resources().get("GPU") else "cpu"
    return name


def check_fit(cpus: int, gpus: float) -> None:
    """Raises an error if a stage fits on no node: it would wait forever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        wanted = f"{cpus} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
        raise UserError(
            f"no node of the Ray cluster has the {wanted} that a stage needs; more --workers means fewer CPUs per "
            "stage, and --ray.gpus-per-stage sets the share of a GPU"
        )
