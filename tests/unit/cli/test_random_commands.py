"""Random command lines: whatever is typed, the answer is a result or one line, and nothing is left half done."""

import io
import json
import math
import re
import sys
import traceback
import warnings
import zipfile
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from conftest import run_tiny
from random_commands import RandomCommands, make_sandbox

from reaper.agent import Agent
from reaper.bench.benchmark import Benchmark
from reaper.bench.costs import CostEstimator
from reaper.cli.main import COMMANDS, main
from reaper.engines.local import LocalEngine
from reaper.engines.ray import RayEngine
from reaper.errors import Stopped

DOCUMENTED = (0, 1, 2, 70, 74, 75, 130)  # docs/reference/command-line.md
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A finished run, two packs of it and a folder of version 0.1."""
    folder = tmp_path_factory.mktemp("material")
    run_tiny(folder / "run", ["no-reh"], "catch", tensorboard=False)
    assert main(["export", str(folder / "run"), str(folder / "run.reaper")]) == 0
    assert main(["export", str(folder / "run"), str(folder / "weights.reaper"), "--what", "weights"]) == 0
    with zipfile.ZipFile(SAMPLES / "0.1" / "half.reaper") as pack:
        pack.extractall(folder / "old")
    (folder / "old" / "reaper-pack.json").unlink()
    return folder


# -- where work would begin


def train(engine, stages, **options):
    for stage in stages:
        json.dumps(stage.spec, allow_nan=False)  # every number that gets this far is one
    raise Stopped("training would begin here")


def measure(benchmark):
    assert 0 < benchmark.seconds < math.inf
    assert benchmark.repeats >= 1
    raise Stopped("measuring would begin here")


def play(agent, task, seed=0, human_view=False):
    """Three short episodes; someone may ask for a thousand million."""
    if seed == 3:
        raise Stopped("more episodes would begin here")
    for score in (0.0, 1.0):
        yield np.zeros((16, 16), np.uint8), score


def measure_generators(store, run):
    raise Stopped("measuring would begin here")


@pytest.fixture
def no_work(monkeypatch):
    """Nothing is trained, measured, played or drawn; everything before and after it is real."""
    monkeypatch.setattr(LocalEngine, "run", train)
    monkeypatch.setattr(RayEngine, "run", train)
    monkeypatch.setattr(Benchmark, "run", measure)
    monkeypatch.setattr("reaper.cli.generator_bench.measure_run", measure_generators)
    monkeypatch.setattr(Agent, "play", play)
    monkeypatch.setattr(CostEstimator, "_calibrated", lambda *_: 1.0)
    for name in ("as_png", "as_pdf"):
        monkeypatch.setattr(f"reaper.report.rendering.{name}", lambda figure: b"drawn")


# -- one command line


class Run:
    """What came of a command line."""

    def __init__(self, words):
        # As real streams are: text that cannot be encoded is an error on standard output.
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=e) for e in ("strict", "backslashreplace")]
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            try:
                self.code = main(words)
            except SystemExit as error:  # of --help
                self.code = error.code
        for stream in streams:
            stream.flush()
        self.output, self.errors = (stream.buffer.getvalue().decode() for stream in streams)

    def check(self):
        lines = [line for line in self.errors.splitlines() if not re.match(r"20\d\d-\d\d-\d\d ", line)]  # progress
        assert self.code in DOCUMENTED
        assert len(lines) <= 1, lines
        assert self.code in (0, 1) or lines[0].startswith("reaper: "), lines


def throw(count, seed, sandbox):
    """Runs random command lines; returns how often each command ended with each exit code."""
    codes = Counter()
    for words in islice(RandomCommands(seed, sandbox), count):
        try:
            run = Run(words)
            run.check()
            changed = sandbox.changed()
            assert run.code != 2 or not changed, f"{run.errors}, but changed: {changed}"
            assert not [path for path in changed if path.endswith(".part")], changed
        except BaseException:
            pytest.fail(f"{words}\n{traceback.format_exc()[-3_000:]}", pytrace=False)
        sandbox.restore(changed)
        codes[words[0] if words and words[0] in COMMANDS else "", run.code] += 1
    return codes


@pytest.fixture
def sandbox(material, tmp_path, monkeypatch, no_work):
    packs = {name: material / name for name in ("run.reaper", "weights.reaper")}
    made = make_sandbox(tmp_path, material / "run", packs, material / "old")
    monkeypatch.chdir(made.folder)
    return made


def test_a_thousand_random_commands(sandbox):
    codes = throw(1_000, 0, sandbox)
    assert [c for c in COMMANDS if not codes[c, 0] + codes[c, 75]] == []  # each got to its end or to its work
    assert sum(codes[command, 75] for command in ("run", "experiment", "demo")) > 50  # would have trained something
    assert sum(codes[command, 2] for command in COMMANDS) > 400


@pytest.mark.long
def test_twenty_thousand_random_commands(sandbox):
    throw(20_000, 1, sandbox)
