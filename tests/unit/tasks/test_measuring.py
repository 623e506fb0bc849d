"""What a step costs, measured with a clock made by hand; where arrays lie in shared memory; when processes pay."""

import os
import time

import gymnasium
import numpy as np
import pytest

from reaper.tasks import stepping
from reaper.tasks.env_group import EnvGroup, arrays_in, buffer_size, find_spec
from reaper.tasks.stepping import StepCost, choose_workers


class Clocked(gymnasium.Env):
    """A step takes `cost` seconds, `busy` of them on the CPU; the first three take ten times as long. In each step
    listed in `interrupted`, another process has the CPU for 10 ms."""

    observation_space = gymnasium.spaces.Box(0, 255, (1,), np.uint8)
    action_space = gymnasium.spaces.Discrete(2, start=5)
    now = cpu = 0.0

    def __init__(self, cost, busy, ends=10**9, noisy_after=None, noisy_rewards=False, interrupted=()):
        self.cost, self.busy, self.ends, self.interrupted = cost, busy, ends, interrupted
        self.noisy_after, self.noisy_rewards = noisy_after, noisy_rewards
        self.steps, self.resets, self.seeds, self.actions = 0, 0, [], []

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        self.seeds.append(seed)
        self.noise = int.from_bytes(os.urandom(4), "little")
        return np.zeros(1, np.uint8), {}

    def step(self, action):
        self.steps += 1
        self.actions.append(action)
        factor = 10 if self.steps <= 3 else 1
        Clocked.now += factor * self.cost + 0.01 * (self.steps in self.interrupted)
        Clocked.cpu += factor * self.busy
        noisy = self.noisy_after is not None and self.steps > self.noisy_after
        seen = np.array([self.noise if noisy and not self.noisy_rewards else 0])
        reward = float(self.noise) if noisy and self.noisy_rewards else 0.0
        return seen, reward, self.steps % self.ends == 0, False, {}


@pytest.fixture
def measured(monkeypatch):
    """Measures two copies; returns what was found and the first copy."""
    monkeypatch.setattr(time, "perf_counter", lambda: Clocked.now)
    monkeypatch.setattr(time, "thread_time", lambda: Clocked.cpu)

    def run(*options, **more):
        first, second = Clocked(*options, **more), Clocked(*options, **more)
        return stepping._measure(first, second), first, second

    return run


def test_cheap_steps_are_measured_50_times_without_the_first_three(measured):
    cost, first, second = measured(1e-4, 5e-5)
    assert (first.steps, second.steps, first.resets) == (50, 50, 1)
    assert cost == pytest.approx((1e-4, 5e-5, True))
    assert set(first.actions) == {5, 6}
    assert first.actions == second.actions


def test_slow_steps_are_measured_for_a_twentieth_of_a_second(measured):
    cost, first, _ = measured(0.02, 0.002)
    assert first.steps == 3 + 3
    assert cost == pytest.approx((0.02, 0.002, True))
    _, first, _ = measured(0.03125, 0.0)
    assert first.steps == 3 + 2
    _, first, _ = measured(1.0, 0.0)
    assert first.steps == 3 + 1


def test_interruptions_on_a_busy_machine_are_not_waiting(measured, monkeypatch):
    """Four of 47 steps: a mean of 0.95 ms with 0.1 ms of CPU time would look like an environment that waits."""
    cost, _, _ = measured(1e-4, 1e-4, interrupted=(10, 20, 30, 40))
    assert cost == pytest.approx((1e-4, 1e-4, True))
    monkeypatch.setattr(stepping, "measure", lambda name: cost)
    assert choose_workers("any", 16) == 0


def test_episodes_start_again_with_another_seed(measured):
    _, first, second = measured(1e-4, 1e-4, ends=20)
    assert (first.steps, first.resets) == (50, 3)
    assert first.seeds == second.seeds
    assert len(set(first.seeds)) == 3
    assert None not in first.seeds


@pytest.mark.parametrize("rewards", [False, True])
def test_one_difference_is_enough_not_to_be_deterministic(measured, rewards):
    assert measured(1e-4, 1e-4, noisy_after=49, noisy_rewards=rewards)[0].deterministic is False
    assert measured(1e-4, 1e-4, noisy_after=50, noisy_rewards=rewards)[0].deterministic is True


def test_an_environment_that_cannot_be_measured_is_said_to_be_cheap():
    stepping.measure.cache_clear()
    assert stepping.measure("test/Unknown-v0") == StepCost(0.0, 0.0, True)


@pytest.mark.parametrize(
    ("cost", "num_envs", "workers"),
    [
        (StepCost(3e-4, 3e-4, True), 2, 2),  # just long enough
        (StepCost(2.9e-4, 2.9e-4, True), 64, 0),
        (StepCost(4e-3, 1e-3, True), 64, 12),  # waits for three quarters of the time: four on each of three cores
        (StepCost(3.9e-3, 1e-3, True), 64, 3),
        (StepCost(5e-3, 1.2e-3, True), 64, 13),  # 12.5, rounded up
    ],
)
def test_the_bounds_of_what_pays(monkeypatch, cost, num_envs, workers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(stepping, "measure", lambda name: cost)
    assert choose_workers("any", num_envs) == workers


# -- arrays in one buffer


def test_every_array_begins_at_a_cache_line():
    # 3 environments, 5 uint8 each: 24 bytes of actions, 15 of observations, 24 of rewards, 3, 3 and 24, each in 64.
    assert buffer_size(3, (5,), "uint8") == 6 * 64
    # 9 environments: 72 bytes take two lines; 9 times 2 x 4 float32 are 288 bytes, which take five; 9 flags take one.
    assert buffer_size(9, (2, 4), "float32") == 64 * (2 + 5 + 2 + 1 + 1 + 2)
    assert buffer_size(8, (), "int64") == 64 * (1 + 1 + 1 + 1 + 1 + 1)  # exactly one line
    buffer = bytearray(buffer_size(9, (2, 4), "float32"))
    arrays = arrays_in(buffer, 9, (2, 4), "float32")
    starts = [array.__array_interface__["data"][0] for array in arrays]
    assert [start - starts[0] for start in starts] == [64 * lines for lines in (0, 2, 7, 9, 10, 11)]
    assert [array.dtype.name for array in arrays] == ["int64", "float32", "float64", "bool", "bool", "int64"]
    assert [array.shape for array in arrays] == [(9,), (9, 2, 4), (9,), (9,), (9,), (9,)]


def test_rows_are_views_and_copies_are_not():
    arrays = arrays_in(bytearray(buffer_size(4, (1,), "uint8")), 4, (1,), "uint8")
    rows, copied = arrays.rows(1, 3), arrays.copy()
    rows.rewards[:] = [5, 6]
    assert arrays.rewards.tolist() == [0, 5, 6, 0]
    assert copied.rewards.tolist() == [0, 0, 0, 0]


class Noted(gymnasium.Env):
    """Reports lives only in its steps; ends with action 1 as a terminal and with 2 at a time limit."""

    def __init__(self):
        self.seeds, self.closed = [], False

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return np.array([9]), {}

    def step(self, action):
        return np.array([action]), 2.5, action == 1, action == 2, {"lives": 4}

    def close(self):
        self.closed = True


def test_a_group_resets_in_the_step_after_the_end_and_reports_nothing_else_there():
    envs = [Noted(), Noted(), Noted()]
    group = EnvGroup(envs, arrays_in(bytearray(buffer_size(3, (1,), "int64")), 3, (1,), "int64"))
    group.reset(7)
    assert [env.seeds for env in envs] == [[7], [8], [9]]
    assert group.arrays.lives.tolist() == [0, 0, 0]
    group.arrays.actions[:] = [0, 1, 2]
    group.step()
    assert group.arrays.rewards.tolist() == [2.5] * 3
    assert group.arrays.lives.tolist() == [4, 4, 4]
    assert group.arrays.terminated.tolist() == [False, True, False]
    assert group.arrays.truncated.tolist() == [False, False, True]
    group.step()
    assert [env.seeds for env in envs] == [[7], [8, None], [9, None]]
    assert group.arrays.observations[:, 0].tolist() == [0, 9, 9]
    assert group.arrays.rewards.tolist() == [2.5, 0, 0]
    assert group.arrays.lives.tolist() == [4, 0, 0]
    assert not (group.arrays.terminated | group.arrays.truncated).any()
    group.close()
    assert all(env.closed for env in envs)


def test_a_module_before_a_colon_is_imported():
    assert find_spec("CartPole-v1").id == "CartPole-v1"
    assert find_spec("gymnasium.envs:CartPole-v1").id == "CartPole-v1"
    with pytest.raises(ModuleNotFoundError):
        find_spec("no_such_module:CartPole-v1")
