"""Engines: the registry, their options, and what they give to a stage."""

import os
from dataclasses import dataclass

import pytest
import torch
from conftest import TINY, plan_tiny, run_plan, run_tiny, tiny_options

from reaper.cli.main import main
from reaper.config.fields import setting
from reaper.config.presets import ARCADE, PAPER
from reaper.engines import ENGINES
from reaper.engines.base import Engine, build_engine, split_engine_options
from reaper.engines.local import _WorkerPool
from reaper.engines.resources import Resources, resolve_device, resolve_resources
from reaper.engines.scheduler import Scheduler
from reaper.engines.signals import Stop
from reaper.errors import UserError
from reaper.progress import Progress, StageFinished, StageStarted
from reaper.results.runs import read_results
from reaper.storage.store import Store
from reaper.study.options import StudyOptions
from reaper.study.stages import run_stage


@dataclass(frozen=True)
class Backwards(Engine):
    """An engine of a user: one stage after another, and children ask for their parents first."""

    greeting: str = setting("hello", "sent with the start of every stage")

    def run(self, stages, *, store, resources, stop, listener):
        by_digest = {stage.digest: stage for stage in stages}

        def finish(stage):
            if store.has(stage.digest):
                return
            for parent in stage.parents.values():
                finish(by_digest[parent])
            listener(stage, StageStarted(host=self.greeting))
            run_stage(stage, store, resources=resources.for_stage(), progress=Progress(), stop=stop)
            listener(stage, StageFinished({"seconds": 0.0}))

        for stage in reversed(stages):
            finish(stage)


@pytest.fixture
def backwards():
    ENGINES["backwards"] = Backwards
    yield
    del ENGINES["backwards"]


def test_a_registered_engine_runs_a_study_with_its_own_options(backwards, tmp_path):
    hosts = []
    options = {"engine": "backwards", "engine_options": {"greeting": "good day"}}
    study = plan_tiny(["no-reh"], "catch,dodge", **options)
    store = run_plan(study, tmp_path / "own", lambda stage, event: hosts.append(getattr(event, "host", None)))
    assert "good day" in hosts
    local = run_tiny(tmp_path / "local", ["no-reh"], "catch,dodge")
    ours, theirs = read_results(store)[0], read_results(local)[0]
    assert ours.finished
    assert ours.scores.tolist() == theirs.scores.tolist()


def test_an_engine_is_chosen_and_configured_on_the_command_line(backwards, tmp_path, capfd):
    settings = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    words = ["run", "single", "--tasks", "catch", "--out", str(tmp_path / "run"), "--engine", "backwards", *settings]
    assert main([*words, "--backwards.greeting", "ahoy"]) == 0
    assert "started on ahoy" in capfd.readouterr().err
    assert main(["engines"]) == 0
    assert "--backwards.greeting" in capfd.readouterr().out


def test_dotted_flags_are_settings_or_options_of_the_chosen_engine():
    dotted = {"long-term.alpha": "0.5", "ray.store": "fetch"}
    assert split_engine_options(dotted, "ray") == ({"long-term.alpha": "0.5"}, {"store": "fetch"})
    with pytest.raises(UserError, match=r"--ray\.store is for --engine ray"):
        split_engine_options(dotted, "local")


def test_unknown_engines_and_options_are_one_line():
    with pytest.raises(UserError, match="unknown engine 'rya'; did you mean 'ray'"):
        build_engine("rya", {})
    with pytest.raises(UserError, match="unknown option of engine ray 'adress'; did you mean 'address'"):
        build_engine("ray", {"adress": "auto"})
    with pytest.raises(UserError, match="engine local has no options"):
        build_engine("local", {"store": "fetch"})


def test_options_of_an_engine_may_be_text():
    assert build_engine("ray", {"gpus-per-stage": "0.25"}).gpus_per_stage == 0.25
    with pytest.raises(UserError, match=r"--ray\.gpus-per-stage takes float"):
        build_engine("ray", {"gpus_per_stage": "many"})
    with pytest.raises(UserError, match=r"--ray\.gpus-per-stage must be above 0"):
        build_engine("ray", {"gpus_per_stage": "0"})


# -- resources


def test_small_networks_get_one_worker_per_core_and_large_ones_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    small, large = (resolve_resources(StudyOptions(), settings) for settings in (ARCADE, PAPER))
    assert (small.workers, small.threads) == (8, 1)
    assert (large.workers, large.threads) == (1, 8)
    two = resolve_resources(StudyOptions(workers=2), PAPER)
    assert (two.workers, two.threads) == (2, 4)


def test_one_thread_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = resolve_resources(StudyOptions(workers=1), PAPER)
    assert (found.device, found.threads) == ("cuda", 1)


def test_the_devices_of_other_machines_are_left_to_the_engine(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == "cpu"
    assert resolve_device("auto", remote=True) == "auto"
    assert resolve_device("cuda", remote=True) == "cuda"
    with pytest.raises(UserError, match="no CUDA device"):
        resolve_device("cuda")


def test_options_reach_the_stage():
    options = tiny_options(emulator_threads=3, checkpoint_every="30s", concurrent_eval=False)
    stage = resolve_resources(options, ARCADE).for_stage()
    assert stage.emulator_threads == 3
    assert stage.checkpoint_interval.seconds == 30
    assert not stage.concurrent_eval


def test_stages_that_run_at_the_same_time_evaluate_in_their_own_process(tmp_path):
    """They leave no core free for another one."""
    pool = _WorkerPool(Scheduler([], Store(tmp_path), print), Resources(workers=2), Stop())
    assert Resources().for_stage().concurrent_eval
    assert not pool.stage_resources.concurrent_eval
