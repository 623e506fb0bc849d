"""Tasks from outside: Atari through C++, any Gymnasium environment, and a user's own."""

import gymnasium
import numpy as np
import pytest
from conftest import run_tiny

from reaper import Task, register_task
from reaper.errors import UserError
from reaper.results.runs import read_results
from reaper.tasks.arcade import ARCADE
from reaper.tasks.atari import AtariTask
from reaper.tasks.gymnasium import GymnasiumTask, to_frames
from reaper.tasks.sequence import find_sequence, find_task, match_task, open_show, open_task


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


def test_images_become_grey_square_frames():
    images = np.zeros((2, 30, 40, 3), np.uint8)
    images[1] = [255, 0, 0]
    frames = to_frames(images, 12)
    assert frames.shape == (2, 12, 12)
    assert frames.dtype == np.uint8
    assert (frames[0] == 0).all()
    assert (frames[1] == round(0.299 * 255)).all()


def test_a_gymnasium_task_keeps_the_contract():
    task = GymnasiumTask("test/Lights-v0", 3, 20)
    first = task.reset(7)
    assert (first.shape, first.dtype) == ((3, 20, 20), np.uint8)
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
    overrides = {"observation.frame-size": 24, "frames.frame_stack": 3}
    store = run_tiny(tmp_path / "out", ["RePR"], tasks="test/Lights-v0", scale="arcade", overrides=overrides)
    (result,) = read_results(store)
    assert result.finished


def test_fewer_actions_are_said_and_do_nothing():
    register_task("three-way", Task("three-way", "Three-way", 3, ARCADE["catch"].open, 16))
    sequence = find_sequence("three-way,dodge")
    assert sequence.num_actions == 6
    assert "three-way has 3 actions of the sequence's 6" in sequence.notices[0]

    class Recorder:
        name, games, actions, frame_size, leaves_gpu_alone = "r", 4, 3, 16, True

        def send(self, actions):
            self.sent = actions

    recorder = Recorder()
    task = open_task(Task("r", "R", 3, lambda games, size: recorder, 16), 4, 16, 6)  # pyright: ignore
    task.send(np.array([0, 2, 3, 5]))
    assert recorder.sent.tolist() == [0, 2, 0, 0]
    assert task.leaves_gpu_alone


def test_short_names_are_understood():
    names = ("ALE/RoadRunner-v5", "ALE/Boxing-v5")
    assert match_task(names, "boxing") == "ALE/Boxing-v5"
    assert match_task(names, "Road Runner") == "ALE/RoadRunner-v5"
    with pytest.raises(UserError, match="unknown task"):
        match_task(names, "Pong")


def test_atari_keeps_the_contract():
    task = AtariTask("ALE/Breakout-v5", "breakout", 4, 84)
    first = task.reset(3)
    assert (first.shape, first.dtype) == ((4, 84, 84), np.uint8)
    random = np.random.default_rng(0)
    lost = ended = resets = 0
    was_ended = np.zeros(4, bool)
    for _ in range(700):
        task.send(random.integers(18, size=4))
        step = task.receive()
        assert (step.autoreset == was_ended).all()
        assert (step.rewards[step.autoreset] == 0).all()
        was_ended = step.done
        lost, ended, resets = lost + step.lost_life.sum(), ended + step.done.sum(), resets + step.autoreset.sum()
    assert ended >= 4
    assert lost >= 4 * ended  # five lives a game: four lost while it goes on, and the last ends it
    assert resets >= ended - 4
    task.close()


def test_atari_as_people_see_it_is_the_same_play():
    task = find_task("ALE/Boxing-v5")
    seen, shown = open_task(task, 2, 84, 20), open_show(task, 2, 20)  # of 20 actions the last two do nothing
    assert shown is not None
    assert seen.reset(5).shape == (2, 84, 84)
    screen, scored = shown.reset(5), 0
    assert (screen.shape, screen.dtype) == ((2, 210, 160, 3), np.uint8)
    assert len(np.unique(screen[0].reshape(-1, 3), axis=0)) > 4
    random = np.random.default_rng(1)
    for _ in range(300):
        actions = random.integers(20, size=2)
        for games in (seen, shown):
            games.send(actions)
        step, other = seen.receive(), shown.receive()
        assert np.array_equal(step.rewards, other.rewards)
        scored += np.count_nonzero(step.rewards)
    assert scored > 5
    seen.close()
    shown.close()
    assert open_show(find_task("catch"), 1, 6) is None


def test_atari_is_repeatable():
    def rollout():
        task = AtariTask("ALE/Boxing-v5", "boxing", 3, 84)
        frames = [task.reset(11).copy()]
        for step in range(60):
            task.send(np.array([step % 18, (step * 5) % 18, 1]))
            frames.append(task.receive().frames.copy())
        task.close()
        return np.stack(frames)

    assert np.array_equal(rollout(), rollout())
