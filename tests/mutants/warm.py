"""Trials that import nothing: a process that has imported the package and all tests forks for each of them, and the
fork exchanges the code of one function for its mutant's.

That takes a fraction of the time. It leaves aside what a fault changes while modules are imported, so mutants of code
that ran by then are left to a process that imports everything anew (trial.py).
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from operators import Mutant


class Called:
    """Records which functions of the package ran, as a profile function."""

    def __init__(self, source: Path) -> None:
        self.prefix, self.codes = f"{source}{os.sep}", set[CodeType]()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.prefix):
            self.codes.add(frame.f_code)


def outermost_functions(code: CodeType) -> Iterator[CodeType]:
    """The functions and methods of a module, in their order, without those that they define in turn."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_function = constant.co_flags & inspect.CO_OPTIMIZED  # unlike the body of a class
            yield from (constant,) if is_function else outermost_functions(constant)


def functions_in(source: Path) -> list[FunctionType]:
    """All functions of the package that there are now."""
    prefix = f"{source}{os.sep}"
    found = (each for each in gc.get_objects() if type(each) is FunctionType)
    return [each for each in found if each.__code__.co_filename.startswith(prefix)]


@dataclass(frozen=True)
class Imported:
    """What importing the package and the tests has made, and what ran by then."""

    functions: list[FunctionType]
    ran: set[CodeType]

    def exchange(self, path: Path, original: bytes, mutated: bytes) -> bool:
        """Whether a mutated function could be put in the place of the original, wherever that is used. Not if it ran
        before: what it made then is not made again."""
        before, after = (
            list(outermost_functions(compile(source, str(path), "exec", dont_inherit=True)))
            for source in (original, mutated)
        )
        if len(before) != len(after):
            return False
        # Functions that follow the first difference differ by their line numbers alone.
        old, new = next(((old, new) for old, new in zip(before, after, strict=True) if old != new), (None, None))
        if old is None or new is None or old in self.ran or old.co_freevars != new.co_freevars:
            return False
        in_file = (each for each in self.functions if each.__code__.co_filename == str(path))
        functions = [each for each in in_file if each.__code__ == old]
        for function in functions:
            function.__code__ = new
        return bool(functions)


RunTests = Callable[[Callable[[], bool], list[str], float, Path], str | None]


class WarmProcess:
    """The process that has imported everything; it forks on request."""

    def __init__(self, root: Path, source: Path, tests: list[str], run_tests: RunTests, folder: Path) -> None:
        self.root, self.source, self.run_tests, self.folder = root, source, run_tests, folder
        self.pipe, theirs = Pipe()
        if os.fork() == 0:
            try:
                self.pipe.close()
                self._serve(theirs, tests)
            finally:
                os._exit(0)  # the campaign has ended, or sees that nobody answers
        theirs.close()

    def run(self, mutant: Mutant, tests: list[str], limit: float) -> str | None:
        """What became of a mutant whose file has been written; None if only a new process can tell."""
        self.pipe.send_bytes(json.dumps({"mutant": asdict(mutant), "tests": tests, "limit": limit}).encode())
        return json.loads(self.pipe.recv_bytes())

    def _serve(self, pipe: Connection, tests: list[str]) -> None:
        called = Called(self.source)
        with (self.folder / "collection.log").open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(self.root)
        sys.path.insert(0, str(self.source))
        sys.setprofile(called)
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
        sys.setprofile(None)
        imported = Imported(functions_in(self.source), called.codes)
        gc.freeze()  # so that a fork does not copy memory only to collect garbage
        while True:
            try:
                asked = json.loads(pipe.recv_bytes())
            except EOFError:
                return
            mutant = Mutant(**{**asked["mutant"], "lines": tuple(asked["mutant"]["lines"])})
            original = (self.root / mutant.file).read_bytes()
            path = self.source.parent / mutant.file

            def prepare(path: Path = path, original: bytes = original, mutant: Mutant = mutant) -> bool:
                return imported.exchange(path, original, mutant.apply(original))

            status = self.run_tests(prepare, asked["tests"], asked["limit"], self.folder / "trial.log")
            pipe.send_bytes(json.dumps(status).encode())
