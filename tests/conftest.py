"""One thread for every test: two test processes share two cores, and results must not depend on the thread count."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from reaper.cli import run as cli_run
from reaper.errors import Stopped
from reaper.storage.checkpoints import CheckpointDir
from reaper.study.options import StudyOptions
from reaper.study.plan import plan

torch.set_num_threads(1)

# Small enough for a test, large enough that every stage does all it ever does.
TINY = {
    "training.num_envs": 4,
    "training.replay-capacity": 400,
    "training.learning-starts": 40,
    "training.exploration-steps": 100,
    "training.best-episodes": 2,
    "short-term.agent-steps": 240,
    "short-term.best-window": 80,
    "short-term.target-update-interval": 60,
    "long-term.agent-steps": 160,
    "long-term.best-window": 80,
    "gan.steps": 8,
    "gan.batch-size": 8,
    "tokens.steps": 8,
    "tokens.batch-size": 8,
    "generator.pseudo-items": 60,
    "rehearsal.capacity": 60,
    "limited-rehearsal.capacity": 12,
    "compressed-rehearsal.capacity": 12,
    "compressed-rehearsal.max-items": 60,
    "fisher.batches": 2,
    "evaluation.episodes": 2,
    "evaluation.max-steps": 30,
    "evaluation.interval": 120,
}


def pytest_collection_modifyitems(items):
    """With `--dist loadgroup`, tests that share a fixture of their module run in one process: it is made only once."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if any(definitions[-1].scope == "module" for definitions in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def tiny_options(*, overrides=None, **options):
    """Options of a shrunk study: on the CPU with one worker, unless others are given."""
    return StudyOptions(**{"device": "cpu", "workers": 1, **options}, overrides={**TINY, **(overrides or {})})


def plan_tiny(conditions, tasks="catch,dodge,frog", **options):
    return plan(conditions, tiny_options(tasks=tasks, **options))


def run_plan(study, out, listener=lambda stage, event: None, **changes):
    """Executes a plan in `out` with its own options, except for the changes, and returns its store."""
    return cli_run.run_plan(study, replace(study.config.options, out=out, **changes), listener)


def run_tiny(out, conditions, tasks="catch,dodge,frog", **options):
    """Runs a shrunk study and returns its store."""
    return run_plan(plan_tiny(conditions, tasks, **options), out)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A finished shrunk run of RePR and no-reh, not to be written to."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    run_tiny(folder, ["RePR", "no-reh"])
    return folder


def run_args(out, *conditions, tasks="catch", seeds=(0,), every="10m"):
    """The same study as `run_tiny`, as command-line arguments."""
    settings = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    args = ["run", *conditions, "--tasks", tasks, "--seeds", *map(str, seeds), "--out", str(out), "--device", "cpu"]
    return [*args, "--workers", "1", "--checkpoint-every", every, *settings]


@pytest.fixture(scope="session")
def two_seeds(tmp_path_factory):
    """A finished run that has a stage of every kind, with two seeds; a test that changes a file restores it."""
    folder = tmp_path_factory.mktemp("two") / "run"
    run_tiny(folder, ["DGDMN"], "catch", seeds=(0, 1))
    return folder


@pytest.fixture(scope="session")
def half_finished(tmp_path_factory):
    """A run that was asked to stop in its second long-term memory, with two checkpoints; not to be written to."""
    folder = tmp_path_factory.mktemp("half") / "run"
    study = plan_tiny(["RePR"], "catch,dodge", checkpoint_every="24")
    written, second = CheckpointDir.write, study.chains[0].memories[1].digest

    def write_and_stop(self, tensors, others):
        written(self, tensors, others)
        if self.digest == second and len(self.numbers()) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointDir, "write", write_and_stop)
        with pytest.raises(Stopped):
            run_plan(study, folder)
    return folder
