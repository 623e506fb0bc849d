"""The trial of one mutant: do the tests that run the mutated line notice?

The package is copied, and the copy gets the fault. A process that has imported torch and the other libraries once forks
for each trial, so that a trial does not pay for their import. The first failure ends it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from operators import Mutant
from tests_by_line import TestsByLine
from warm import WarmProcess

FIRST_SECONDS = 4.0  # of tests in the first of two processes: most mutants need no more
STARTUP_SECONDS = 40.0  # at most, on a busy machine
SLOWDOWN = 10.0  # at most, against the traced run
LIBRARIES = (
    "torch",
    "ale_py",
    "gymnasium.vector",
    "hypothesis",
    "matplotlib.figure",
    "PIL.Image",
    "rich.progress",
    "safetensors.torch",
)
BROKEN, NOT_READY = 70, 71  # exit codes of a trial that says nothing about its mutant
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"


@dataclass(frozen=True)
class Verdict:
    status: str
    tests: int  # that were asked to run
    seconds: float
    complete: bool  # whether every test that runs the line was asked, if none failed


class PackageCopy:
    """A copy of the sources, in which one file at a time is replaced."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.source = root, folder / "src"
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(root / "src", self.source, ignore=shutil.ignore_patterns("*.egg-info"))

    def write(self, mutant: Mutant | None) -> None:
        if mutant:
            path = self.source.parent / mutant.file
            path.write_bytes(mutant.apply((self.root / mutant.file).read_bytes()))
            _forget_bytecode(path)

    def restore(self, mutant: Mutant | None) -> None:
        if mutant:
            path = self.source.parent / mutant.file
            path.write_bytes((self.root / mutant.file).read_bytes())
            _forget_bytecode(path)


def _forget_bytecode(path: Path) -> None:
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        cached.unlink()


def import_libraries() -> None:
    """What most trials need, but nothing of ours."""
    for name in LIBRARIES:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)


def choose(by_line: TestsByLine, candidates: set[int], file: str, seconds: float) -> tuple[list[list[str]], bool]:
    """Tests in the order in which they run, in one or two processes, up to a budget; and whether those are all. Quick
    tests come first, and those that run little but the mutated file."""

    def rank(test: int) -> float:
        return by_line.cost(test, set()) / max(0.01, by_line.focus(test, file))

    chosen: list[list[str]] = [[], []]
    ready: set[str] = set()
    spent = 0.0
    for test in sorted(candidates, key=rank):
        cost = by_line.cost(test, ready)
        if spent + cost > seconds:
            continue
        spent += cost
        ready |= set(by_line.fixtures[test])
        chosen[spent > FIRST_SECONDS].append(by_line.names[test])
    return [tests for tests in chosen if tests], sum(map(len, chosen)) == len(candidates)


def run_trial(
    copy: PackageCopy,
    mutant: Mutant | None,
    groups: list[list[str]],
    limits: list[float],
    log: Path,
    warm: WarmProcess | None = None,
) -> str:
    """What became of a mutant; without a mutant, whether the tests pass. If tests take too long with a mutant, and
    without it, too, then that says nothing about the mutant."""
    for tests, limit in zip(groups, limits, strict=True):
        copy.write(mutant)
        try:
            status = warm.run(mutant, tests, limit) if warm and mutant and not mutant.at_import else None
            status = status or _run_tests(copy, tests, limit, log)
        finally:
            copy.restore(mutant)
        if mutant and status == TIMED_OUT and _run_tests(copy, tests, limit, log) == TIMED_OUT:
            status = SURVIVED
        if status != SURVIVED:
            return status
    return SURVIVED


def time_limit(by_line: TestsByLine, tests: list[str]) -> float:
    numbers = {name: number for number, name in enumerate(by_line.names)}
    ready: set[str] = set()
    total = 0.0
    for name in tests:
        total += by_line.cost(numbers[name], ready)
        ready |= set(by_line.fixtures[numbers[name]])
    return STARTUP_SECONDS + SLOWDOWN * total


def start_warm(copy: PackageCopy, tests: list[str], folder: Path) -> WarmProcess:
    def run_tests(prepare: Callable[[], bool], tests: list[str], limit: float, log: Path) -> str | None:
        return _run_forked(lambda: _in_child(copy, tests, log, prepare), limit, log)

    return WarmProcess(copy.root, copy.source, tests, run_tests, folder)


def _run_tests(copy: PackageCopy, tests: list[str], limit: float, log: Path) -> str:
    status = _run_forked(lambda: _in_child(copy, tests, log), limit, log)
    assert status is not None
    return status


def _run_forked(child: Callable[[], None], limit: float, log: Path) -> str | None:
    """How a child has ended; None if it was not ready to run any test."""
    process = os.fork()
    if process == 0:
        child()
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, code = os.waitpid(process, os.WNOHANG)
        if done:
            _end_group(process)
            if os.waitstatus_to_exitcode(code) == NOT_READY:
                return None
            if os.waitstatus_to_exitcode(code) == BROKEN:
                raise RuntimeError(log.read_text())
            return SURVIVED if code == 0 else KILLED
        time.sleep(0.02)
    _end_group(process)
    os.waitpid(process, 0)
    return TIMED_OUT


def _end_group(process: int) -> None:
    """Ends the child and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _in_child(copy: PackageCopy, tests: list[str], log: Path, prepare: Callable[[], bool] = lambda: True) -> None:
    code = BROKEN
    try:
        os.setsid()
        if not prepare():
            os._exit(NOT_READY)
        # A fault may ask for all the memory there is; then this process ends, and no other.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(copy.root)
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        if str(copy.source) not in sys.path:
            sys.path.insert(0, str(copy.source))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(copy.source), os.environ.get("PYTHONPATH", "")]))
        found = importlib.util.find_spec("reaper")
        assert found is not None
        assert Path(str(found.origin)).is_relative_to(copy.source), "the tests would run the original"

        class InOrder:
            def pytest_collection_modifyitems(self, items: list[Any]) -> None:
                order = {name: number for number, name in enumerate(tests)}
                items.sort(key=lambda item: order.get(item.nodeid, len(order)))

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "--no-header"]
        code = int(pytest.main([*options, *tests], plugins=[InOrder()]))
    finally:
        os._exit(code)
