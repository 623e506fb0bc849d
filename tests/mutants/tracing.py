"""A pytest plugin: which test runs which line, and how long each test takes.

coverage.py records lines under a context, which is the id of the running test. A fixture that several tests share runs
within the first of them, so it gets a context of its own: all tests that use it count as running its lines. Processes
that a test starts find its context in an environment variable.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import coverage
import pytest

CONTEXT, TIMES = "MUTANTS_CONTEXT", "MUTANTS_TIMES"  # environment variables
SHARED = ("session", "module", "package", "class")


class Tracing:
    """Switches contexts, and writes the times when pytest ends."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage.current()
        self.seconds: dict[str, float] = defaultdict(float)  # by test and by fixture
        self.fixtures: dict[str, list[str]] = {}  # test -> the shared fixtures it uses
        self.failed: set[str] = set()
        self.shared: dict[str, float] = {}  # shared fixtures that have run

    def switch(self, context: str) -> None:
        os.environ[CONTEXT] = context
        if self.coverage:
            self.coverage.switch_context(context)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.switch(item.nodeid)
        start, inside = time.perf_counter(), sum(self.shared.values())
        try:
            return (yield)
        finally:
            shared = sum(self.shared.values()) - inside
            self.seconds[item.nodeid] = time.perf_counter() - start - shared
            self.switch("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope not in SHARED:
            return (yield)
        name, before = fixture_name(fixturedef), os.environ.get(CONTEXT, "")
        self.switch(name)
        start, inside = time.perf_counter(), sum(self.shared.values())
        try:
            return (yield)
        finally:
            self.shared[name] = time.perf_counter() - start - (sum(self.shared.values()) - inside)
            self.switch(before)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_collection_finish(self, session):
        for item in session.items:
            definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
            self.fixtures[item.nodeid] = [
                fixture_name(each[-1]) for each in definitions.values() if each[-1].scope in SHARED
            ]

    def pytest_sessionfinish(self):
        found = {
            "tests": {
                test: {"seconds": round(self.seconds[test], 3), "fixtures": fixtures}
                for test, fixtures in self.fixtures.items()
                if test in self.seconds and test not in self.failed
            },
            "fixtures": {name: round(seconds, 3) for name, seconds in self.shared.items()},
            "failed": sorted(self.failed),
        }
        Path(os.environ[TIMES]).write_text(json.dumps(found, indent=1))


def fixture_name(definition) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"


def pytest_configure(config):
    config.pluginmanager.register(Tracing())
