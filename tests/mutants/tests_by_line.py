"""Which tests run which line of the package: from one run of all tests under coverage.py."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from coverage import CoverageData
from coverage.exceptions import DataError
from tracing import CONTEXT, TIMES

# Processes that tests start are traced, too: Python imports `sitecustomize` before anything else.
SITE = "import coverage\ncoverage.process_startup()\n"
CONFIG = f"""
[run]
data_file = {{folder}}/data
source = {{source}}
parallel = true
context = ${{{{{CONTEXT}-}}}}
patch = _exit
sigterm = true
disable_warnings = no-data-collected, module-not-measured, trace-changed, module-not-imported
"""


class TestsByLine:
    """Looks up the tests that run a line, and what each costs."""

    __test__ = False  # for pytest

    def __init__(self, values: dict) -> None:
        self.values = values
        self.lines: dict[str, dict[str, list[int]]] = values["lines"]  # file -> line -> numbers of tests
        self.names: list[str] = values["names"]
        self.seconds: list[float] = values["seconds"]
        self.fixtures: list[list[str]] = values["fixtures"]
        self.fixture_seconds: dict[str, float] = values["fixture_seconds"]
        self._in_file = {file: Counter(itertools.chain(*lines.values())) for file, lines in self.lines.items()}
        self._in_all = sum(self._in_file.values(), Counter())

    @classmethod
    def read(cls, path: Path) -> TestsByLine:
        return cls(json.loads(path.read_text()))

    def updated(self, newer: TestsByLine, paths: list[str]) -> TestsByLine:
        """With the tests in some paths replaced by those of another trace of the same code."""
        kept = [number for number, name in enumerate(self.names) if not name.startswith(tuple(paths))]
        places = ({old: new for new, old in enumerate(kept)}, {n: len(kept) + n for n in range(len(newer.names))})
        lines: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for part, place in zip((self, newer), places, strict=True):
            for file, found in part.lines.items():
                for line, tests in found.items():
                    lines[file][line] |= {place[test] for test in tests if test in place}
        return TestsByLine(
            {
                "lines": {
                    file: {line: sorted(tests) for line, tests in found.items()} for file, found in lines.items()
                },
                "names": [*(self.names[number] for number in kept), *newer.names],
                "seconds": [*(self.seconds[number] for number in kept), *newer.seconds],
                "fixtures": [*(self.fixtures[number] for number in kept), *newer.fixtures],
                "fixture_seconds": {**self.fixture_seconds, **newer.fixture_seconds},
                "failed": newer.values["failed"],
            }
        )

    def of_lines(self, file: str, lines: Iterable[int]) -> set[int]:
        found = self.lines.get(file, {})
        return {test for line in lines for test in found.get(str(line), ())}

    def of_files(self, files: Iterable[str]) -> set[int]:
        """All tests that run anything in these files."""
        return {test for file in files for tests in self.lines.get(file, {}).values() for test in tests}

    def quick(self, seconds: float = 0.02) -> set[int]:
        return {test for test in range(len(self.names)) if self.cost(test, set()) <= seconds}

    def focus(self, test: int, file: str) -> float:
        """The share of a file in all the lines that a test runs: one that runs little else looks more closely."""
        return self._in_file.get(file, Counter())[test] / max(1, self._in_all[test])

    def cost(self, test: int, ready: set[str]) -> float:
        """Seconds, with the shared fixtures that no test before it has set up."""
        return self.seconds[test] + sum(self.fixture_seconds.get(f, 0.0) for f in self.fixtures[test] if f not in ready)


def trace(root: Path, folder: Path, arguments: list[str]) -> TestsByLine:
    """Runs the tests. One that fails without a mutant is left out, and named."""
    folder.mkdir(parents=True, exist_ok=True)
    source, config, times = root / "src" / "reaper", folder / "coverage.ini", folder / "times.json"
    config.write_text(CONFIG.format(folder=folder, source=source))
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    for old in folder.glob("data*"):
        old.unlink()
    paths = [folder / "site", Path(__file__).parent, root / "src", os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "COVERAGE_PROCESS_START": str(config),
        TIMES: str(times),
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, paths))),
    }
    options = ["-q", "-p", "tracing", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
    subprocess.run([sys.executable, "-m", "pytest", *options], cwd=root, env=environment, check=False)
    return TestsByLine(_combine(root, folder, json.loads(times.read_text())))


def _combine(root: Path, folder: Path, times: dict) -> dict:
    """Lines with the tests that run them, from the data files of all processes."""
    names = list(times["tests"])
    users = defaultdict(list)
    for number, name in enumerate(names):
        users[name].append(number)
        for fixture in times["tests"][name]["fixtures"]:
            users[fixture].append(number)
    lines: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for data in _read(folder):
        for path in data.measured_files():
            by_line = lines[str(Path(path).relative_to(root))]
            for line, contexts in data.contexts_by_lineno(path).items():
                by_line[str(line)].update(*(users.get(context.strip("|"), ()) for context in contexts))
    return {
        "lines": {file: {line: sorted(tests) for line, tests in found.items()} for file, found in lines.items()},
        "names": names,
        "seconds": [times["tests"][name]["seconds"] for name in names],
        "fixtures": [times["tests"][name]["fixtures"] for name in names],
        "fixture_seconds": times["fixtures"],
        "failed": times["failed"],
    }


def _read(folder: Path) -> Iterator[CoverageData]:
    for path in folder.glob("data*"):
        data = CoverageData(str(path))
        with contextlib.suppress(DataError):  # a process that outlived the tests may be writing it
            data.read()
            yield data
