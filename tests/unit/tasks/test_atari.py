"""What an Atari game is to an agent does not depend on ale-py's defaults."""

import inspect

import numpy as np
import pytest

from reaper.tasks.atari import EMULATOR_SETTINGS, AtariTask
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import EnvOptions

vector_env = pytest.importorskip("ale_py.vector_env")

FRAME = ObservationSpec((1, 84, 84))
# Every default of ale-py, replaced by another valid value.
OTHER_DEFAULTS = {
    "batch_size": 1,
    "thread_affinity_offset": 0,
    "max_num_frames_per_episode": 40,
    "repeat_action_probability": 0.9,
    "full_action_space": False,
    "continuous": True,
    "continuous_action_threshold": 0.1,
    "autoreset_mode": "SameStep",
    "stack_num": 2,
    "frameskip": 2,
    "maxpool": False,
    "noop_max": 0,
    "episodic_life": True,
    "life_loss_info": True,
    "reward_clipping": True,
    "use_fire_reset": True,
    "num_threads": 1,
    "img_height": 42,
    "img_width": 42,
    "grayscale": False,
}


def rollout(steps=400):
    """Everything that three games of Breakout show in a rollout of random actions."""
    task = AtariTask("ALE/Breakout-v5", "breakout", EnvOptions(3, FRAME))
    random, seen = np.random.default_rng(0), [task.reset(11).copy()]
    for _ in range(steps):
        task.send(random.integers(18, size=3))
        step = task.receive()
        seen += [step.observations.copy(), step.rewards, step.terminated, step.truncated, step.lost_life]
    task.close()
    return seen


def test_every_argument_of_ale_py_is_passed_by_name(monkeypatch):
    known = inspect.signature(vector_env.AtariVectorEnv).parameters.keys()
    passed = {}
    monkeypatch.setattr(vector_env, "AtariVectorEnv", lambda rom, num_envs, **given: passed.update(given))
    AtariTask("ALE/Boxing-v5", "boxing", EnvOptions(8, FRAME))
    assert passed.keys() == known - {"game", "num_envs"}
    assert {name: value for name, value in passed.items() if name in EMULATOR_SETTINGS} == {
        "frameskip": 4,
        "maxpool": True,
        "stack_num": 1,
        "repeat_action_probability": 0.0,
        "noop_max": 30,
        "use_fire_reset": False,
        "full_action_space": True,
        "continuous": False,
        "continuous_action_threshold": 0.5,
        "episodic_life": False,
        "life_loss_info": False,
        "reward_clipping": False,
        "max_num_frames_per_episode": 108_000,
        "autoreset_mode": "NextStep",
        "batch_size": 0,
        "thread_affinity_offset": -1,
    }


def test_other_defaults_of_ale_py_change_nothing(monkeypatch):
    expected = rollout()
    defaults = vector_env.AtariVectorEnv.__init__.__kwdefaults__
    assert defaults.keys() == OTHER_DEFAULTS.keys()
    for name, value in OTHER_DEFAULTS.items():
        monkeypatch.setitem(defaults, name, value)
    found = rollout()
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    assert sum(step.sum() for step in expected[2::5]) > 0  # something was scored
    assert np.any(expected[3::5])  # and an episode ended


def test_an_episode_starts_with_0_to_29_emulator_frames_of_no_ops():
    task = AtariTask("ALE/Boxing-v5", "boxing", EnvOptions(20, FRAME))
    _, first = task._envs.reset(seed=0)
    noops = first["episode_frame_number"].copy()
    task.send(np.zeros(20, np.int64))
    _, _, _, _, second = task._envs.recv()
    task.close()
    assert 0 <= noops.min() < 8 < 21 < noops.max() <= 29
    assert np.any(noops % 4)  # no-ops are frames, not agent steps
    assert (second["episode_frame_number"] - noops).tolist() == [4] * 20
