"""Atari through C++, any Gymnasium environment, and a user's own task."""

import gymnasium
import numpy as np
import pytest
from conftest import run_tiny

from reaper import Task, register_task
from reaper.config.presets import ARCADE as ARCADE_SETTINGS
from reaper.config.presets import PAPER
from reaper.errors import UserError
from reaper.results.runs import read_results
from reaper.tasks.arcade import ARCADE
from reaper.tasks.atari import AtariTask
from reaper.tasks.gymnasium import GymnasiumTask, to_grey
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import find_sequence, find_task, match_task, open_task
from reaper.tasks.task import EnvOptions

ATARI_FRAME, ARCADE_FRAME = ObservationSpec((1, 84, 84)), ObservationSpec((1, 16, 16))


class Lights(gymnasium.Env):
    """A corridor in colour: move right to the light; five steps at most."""

    observation_space = gymnasium.spaces.Box(0, 255, (30, 40, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = int(self.np_random.integers(3)), 0
        return self._image(), {}

    def step(self, action):
        self.at, self.time = self.at + (action == 1), self.time + 1
        return self._image(), float(action == 1), self.at >= 6, self.time >= 5, {}

    def _image(self):
        image = np.zeros((30, 40, 3), np.uint8)
        image[:, self.at * 5 : self.at * 5 + 5, 1] = 255
        return image


@pytest.fixture(scope="module", autouse=True)
def registered():
    gymnasium.register("test/Lights-v0", Lights)
    yield
    del gymnasium.registry["test/Lights-v0"]


def test_images_become_grey_and_resized():
    images = np.zeros((2, 30, 40, 3), np.uint8)
    images[1] = [255, 0, 0]
    frames = to_grey(images, 12, 12)
    assert frames.shape == (2, 1, 12, 12)
    assert frames.dtype == np.uint8
    assert (frames[0] == 0).all()
    assert (frames[1] == round(0.299 * 255)).all()


def test_a_gymnasium_task_keeps_the_contract():
    task = GymnasiumTask("test/Lights-v0", EnvOptions(3, ObservationSpec((1, 20, 20))))
    first = task.reset(7)
    assert (first.shape, first.dtype) == ((3, 1, 20, 20), np.uint8)
    resets, ends = 0, 0
    for _ in range(30):
        task.send(np.array([0, 1, 2]))
        step = task.receive()
        assert (step.rewards[step.autoreset] == 0).all()
        resets, ends = resets + step.autoreset.sum(), ends + step.done.sum()
        assert (step.truncated <= step.done).all()
    assert resets > 10
    assert 0 <= ends - resets <= 3
    assert np.array_equal(task.reset(7), first)
    task.close()


def test_a_users_environment_is_learnt_like_any_other(tmp_path):
    overrides = {"observation.frame-size": 24, "observation.frame-stack": 3}
    store = run_tiny(tmp_path / "out", ["RePR"], tasks="test/Lights-v0", preset="arcade", overrides=overrides)
    (result,) = read_results(store)
    assert result.finished


def test_tasks_with_fewer_actions_are_reported():
    register_task("three-way", Task("three-way", "Three-way", 3, ARCADE["catch"].open, ARCADE_FRAME))
    sequence = find_sequence("three-way,dodge")
    assert sequence.num_actions == 6
    assert sequence.fewer_actions == {"three-way": 3}
    assert sequence.notices == ["three-way has 3 of the sequence's 6 actions; the others are never chosen there"]
    assert find_sequence("catch,dodge").notices == []


def test_environments_have_as_many_actions_as_their_task():
    wrong = Task("three-way", "Three-way", 3, ARCADE["catch"].open, ARCADE_FRAME)
    with pytest.raises(UserError, match="a task with 3 actions, but its environments have 6"):
        open_task(wrong, EnvOptions(1, ARCADE_FRAME))


def test_short_names_are_understood():
    names = ("ALE/RoadRunner-v5", "ALE/Boxing-v5")
    assert match_task(names, "boxing") == "ALE/Boxing-v5"
    assert match_task(names, "Road Runner") == "ALE/RoadRunner-v5"
    with pytest.raises(UserError, match="unknown task"):
        match_task(names, "Pong")


def test_atari_keeps_the_contract():
    task = AtariTask("ALE/Breakout-v5", "breakout", EnvOptions(4, ATARI_FRAME))
    first = task.reset(3)
    assert (first.shape, first.dtype) == ((4, 1, 84, 84), np.uint8)
    random = np.random.default_rng(0)
    lost = ended = resets = 0
    was_done = np.zeros(4, bool)
    for _ in range(700):
        task.send(random.integers(18, size=4))
        step = task.receive()
        assert (step.autoreset == was_done).all()
        assert (step.rewards[step.autoreset] == 0).all()
        was_done = step.done
        lost, ended, resets = lost + step.lost_life.sum(), ended + step.done.sum(), resets + step.autoreset.sum()
    assert ended >= 4
    assert lost <= 5 * (ended + 4)  # of four environments, the last episodes are not finished
    assert lost >= 4 * ended  # five lives per episode: four are lost before it ends, and the last ends it
    assert resets >= ended - 4
    task.close()


def test_the_human_view_of_atari_shows_the_same_episode():
    task = find_task("ALE/Boxing-v5")
    options = EnvOptions(2, ATARI_FRAME)
    observed, rendered = open_task(task, options), task.human_view(options)
    assert observed.reset(5).shape == (2, 1, 84, 84)
    screen, scored = rendered.reset(5), 0
    assert (screen.shape, screen.dtype) == ((2, 3, 210, 160), np.uint8)
    assert screen.shape[1:] == rendered.observation.shape
    assert len(np.unique(screen[0].reshape(3, -1), axis=1).T) > 4
    random = np.random.default_rng(1)
    for _ in range(300):
        actions = random.integers(18, size=2)
        for envs in (observed, rendered):
            envs.send(actions)
        step, other = observed.receive(), rendered.receive()
        assert np.array_equal(step.rewards, other.rewards)
        scored += np.count_nonzero(step.rewards)
    assert scored > 5
    observed.close()
    rendered.close()
    assert find_task("catch").human_view is None


def test_atari_is_deterministic():
    def rollout():
        task = AtariTask("ALE/Boxing-v5", "boxing", EnvOptions(3, ATARI_FRAME))
        frames = [task.reset(11).copy()]
        for step in range(60):
            task.send(np.array([step % 18, (step * 5) % 18, 1]))
            frames.append(task.receive().observations.copy())
        task.close()
        return np.stack(frames)

    assert np.array_equal(rollout(), rollout())


def test_atari_uses_as_many_threads_as_asked(monkeypatch):
    asked = []

    def vector_env(rom, num_envs, num_threads, **rest):
        asked.append(num_threads)

    monkeypatch.setattr("ale_py.vector_env.AtariVectorEnv", vector_env)
    monkeypatch.setattr("reaper.tasks.atari.automatic_threads", lambda: 3)
    for threads in (None, 2, 100):
        AtariTask("ALE/Boxing-v5", "boxing", EnvOptions(8, ATARI_FRAME, threads))
    assert asked == [3, 2, 8]


def test_tasks_with_different_observations_share_no_network():
    register_task("wide", Task("wide", "Wide", 3, ARCADE["catch"].open, ObservationSpec((1, 16, 24))))
    with pytest.raises(UserError, match="wide emits 1x16x24 uint8 images and catch 1x16x16 uint8 images"):
        find_sequence("catch,wide")
    with pytest.raises(UserError, match="test/Lights-v0 emits resizable images and catch 1x16x16 uint8 images"):
        find_sequence("catch,test/Lights-v0")


def test_a_sequence_states_what_its_agent_sees():
    assert find_sequence("catch,dodge").observation(ARCADE_SETTINGS.observation).shape == (2, 16, 16)
    assert find_sequence("test/Lights-v0").observation(PAPER.observation).shape == (4, 84, 84)
    with pytest.raises(UserError, match="catch emits 1x16x16 uint8 images, and these settings ask for 1x84x84"):
        find_sequence("catch").observation(PAPER.observation)
    with pytest.raises(UserError, match="catch emits 1x16x16 uint8 images, not 1x84x84"):
        open_task(find_task("catch"), EnvOptions(1, ATARI_FRAME))
