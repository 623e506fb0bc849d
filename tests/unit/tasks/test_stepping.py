"""Stepping copies of a Gymnasium environment: the same in this process and in others, also when one of them fails."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from conftest import run_tiny
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stepping_envs import SIZE, Dies, Raises, Unseeded, Walk

from reaper.cli.main import _failed
from reaper.errors import EnvironmentFailed
from reaper.tasks import gymnasium as task_module
from reaper.tasks import stepping
from reaper.tasks.env_workers import EnvWorkers, spec_for_workers
from reaper.tasks.gymnasium import GymnasiumTask
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import find_sequence
from reaper.tasks.stepping import InProcess, OwnVectorEnv, StepCost, choose_workers, measure, open_stepper
from reaper.tasks.task import EnvOptions

NUM_ENVS = 5
NAME = "test/Stepped-v0"


@pytest.fixture
def register():
    """Registers an environment under NAME."""
    measure.cache_clear()
    yield lambda env, **options: gymnasium.register(NAME, env, kwargs=options)
    gymnasium.registry.pop(NAME, None)


def actions_of(steps):
    return np.random.default_rng(0).integers(1, 4, (steps, NUM_ENVS))


def step_on(envs):
    for actions in actions_of(10):
        envs.send(actions)
        envs.receive()


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_every_way_of_stepping_is_gymnasiums(register, workers):
    register(Walk)
    reference = SyncVectorEnv([lambda: gymnasium.make(NAME)] * NUM_ENVS, autoreset_mode=AutoresetMode.NEXT_STEP)
    envs = open_stepper(NAME, NUM_ENVS, workers)
    assert isinstance(envs, EnvWorkers if workers else InProcess)
    for seed in (3, 8):
        expected, _ = reference.reset(seed=seed)
        arrays = envs.reset(seed)
        assert np.array_equal(arrays.observations, expected)
        ends = 0
        for actions in actions_of(25):
            envs.send(actions)
            arrays, expected = envs.receive(), reference.step(actions)
            for ours, theirs in zip(arrays[1:5], expected, strict=False):
                assert np.array_equal(ours, theirs)
            assert np.array_equal(arrays.lives, expected[4]["lives"])
            ends += arrays.truncated.sum()
        assert ends > 3
    envs.close()


def test_a_step_keeps_its_values_while_the_next_one_runs(register):
    register(Walk)
    task = GymnasiumTask(NAME, EnvOptions(NUM_ENVS, ObservationSpec((1, SIZE, SIZE)), env_workers=2))
    task.reset(0)
    task.send(np.zeros(NUM_ENVS, np.int64))
    step = task.receive()
    before = [np.copy(part) for part in vars(step).values()]
    task.send(np.ones(NUM_ENVS, np.int64))
    time.sleep(0.1)
    for part, copy in zip(vars(step).values(), before, strict=True):
        assert np.array_equal(part, copy)
    task.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_an_environment_is_one_line_with_its_traceback(register, workers, tmp_path, capsys):
    (tmp_path / "stuck").touch()
    register(Raises, file=str(tmp_path / "stuck"), after=2)
    envs = open_stepper(NAME, NUM_ENVS, workers)
    processes = list(getattr(envs, "processes", []))
    envs.reset(0)
    with pytest.raises(EnvironmentFailed, match=f"^{NAME} failed: RuntimeError: the arm is stuck; the same") as raised:
        step_on(envs)
    assert all(process.poll() is not None for process in processes)
    assert _failed(raised.value) == 1
    *trace, line = capsys.readouterr().err.splitlines()
    assert line == f"reaper: {raised.value}"
    assert 'raise RuntimeError("the arm is stuck")' in "\n".join(trace)


def test_a_killed_worker_is_one_line(register):
    register(Dies)
    envs = open_stepper(NAME, NUM_ENVS, 2)
    envs.reset(0)
    with pytest.raises(EnvironmentFailed, match="a process that steps it was killed by signal 9; the same command"):
        step_on(envs)


def test_a_run_resumes_after_its_environment_has_failed(register, tmp_path):
    """From its last checkpoint, with the same weights as a run that never failed."""
    stuck = tmp_path / "stuck"
    register(Raises, file=str(stuck), after=40)
    options = {"tasks": NAME, "preset": "arcade", "checkpoint_every": "24", "env_workers": 2}
    options["overrides"] = {"observation.frame-size": SIZE}

    whole = run_tiny(tmp_path / "whole", ["no-reh"], **options)
    stuck.touch()
    with pytest.raises(EnvironmentFailed, match="the arm is stuck"):
        run_tiny(tmp_path / "broken", ["no-reh"], **options)
    stuck.unlink()
    assert any((tmp_path / "broken" / "unfinished").iterdir())
    resumed = run_tiny(tmp_path / "broken", ["no-reh"], **{**options, "env_workers": 0})
    (run,) = whole.runs()
    for digest in (*run.teachers, *run.memories):
        assert (whole.stage(digest).folder / "agent.safetensors").read_bytes() == (
            resumed.stage(digest).folder / "agent.safetensors"
        ).read_bytes()


STARTS = """
import sys, time, gymnasium, stepping_envs
from reaper.tasks.stepping import open_stepper
gymnasium.register("test/Stepped-v0", "stepping_envs:Walk")
envs = open_stepper("test/Stepped-v0", 4, 2)
envs.reset(0)
print(*(process.pid for process in envs.processes), flush=True)
time.sleep(60)
"""


def test_no_worker_outlives_its_parent():
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    program = [sys.executable, "-c", STARTS]
    with subprocess.Popen(program, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while any(map(_runs, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_runs, workers))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_outlive_the_thread_that_started_them(register):
    register(Walk)
    opened = []
    thread = threading.Thread(target=lambda: opened.append(open_stepper(NAME, 4, 2)))
    thread.start()
    thread.join()
    assert opened[0].reset(0).observations.any()
    opened[0].close()


# -- which way is chosen


@pytest.mark.parametrize(
    ("cost", "num_envs", "workers"),
    [
        (StepCost(2e-3, 2e-3, True), 16, 2),
        (StepCost(2e-3, 1e-3, True), 16, 2),  # shares its core with somebody, but does not wait
        (StepCost(2e-3, 2e-4, True), 16, 16),
        (StepCost(2e-3, 2e-4, True), 64, 20),
        (StepCost(2e-3, 0.0, True), 200, 64),
        (StepCost(2e-3, 2e-3, True), 1, 0),
        (StepCost(2e-5, 2e-5, True), 64, 0),
    ],
)
def test_a_measurement_chooses_the_number_of_processes(monkeypatch, cost, num_envs, workers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(stepping, "measure", lambda name: cost)
    assert choose_workers("any", num_envs) == workers


def test_one_core_steps_in_its_own_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert choose_workers("any", 16) == 0


def test_an_environment_that_other_processes_do_not_know_is_stepped_here(register):
    class Local(Walk):
        pass

    register(Local)
    assert spec_for_workers(gymnasium.spec(NAME)) is None
    assert isinstance(open_stepper(NAME, 4, workers=2), InProcess)


def test_an_environment_that_ignores_its_seed_is_reported(register):
    register(Walk)
    assert measure(NAME).deterministic
    assert find_sequence(NAME).notices == []
    gymnasium.registry.pop(NAME)
    measure.cache_clear()
    register(Unseeded)
    assert not measure(NAME).deterministic
    assert find_sequence(NAME).notices[0].startswith(f"{NAME} is not deterministic under a seed")


# -- the environment's own vector implementation


def test_a_vector_implementation_keeps_the_contract():
    """CartPole has one; stepped by hand it leads to the same observations."""
    ours, theirs = OwnVectorEnv("CartPole-v1", 4), gymnasium.make_vec("CartPole-v1", 4)
    assert np.array_equal(ours.reset(3).observations, theirs.reset(seed=3)[0])
    resets, done = 0, np.zeros(4, bool)
    for actions in np.random.default_rng(0).integers(0, 2, (60, 4)):
        ours.send(actions)
        arrays, expected = ours.receive(), theirs.step(actions)
        for own, other in zip(arrays[1:5], expected, strict=False):
            assert np.array_equal(own, other)
        assert (arrays.rewards[done] == 0).all()
        resets, done = resets + done.sum(), arrays.terminated | arrays.truncated
    assert resets > 3
    ours.close()


def test_a_vector_implementation_is_used_only_on_request(monkeypatch):
    opened = []
    monkeypatch.setattr(task_module, "OwnVectorEnv", lambda name, num_envs: opened.append(name))
    for vector_env in (False, True):
        options = EnvOptions(2, ObservationSpec((1, SIZE, SIZE)), vector_env=vector_env, env_workers=0)
        GymnasiumTask("CartPole-v1", options)
        GymnasiumTask("Acrobot-v1", options)  # has none
    assert opened == ["CartPole-v1"]
