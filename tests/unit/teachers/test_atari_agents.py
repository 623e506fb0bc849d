"""An SB3 agent of an Atari game with its minimal action set, behind the 18 actions of the joystick."""

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from unit.teachers.agents import Images, sb3_agent

from reaper.tasks.atari import EMULATOR_SETTINGS
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import find_task
from reaper.tasks.task import EnvOptions
from reaper.teachers.fitting import TaskInSequence, fit
from reaper.teachers.sources import open_teacher

PONG = (0, 1, 3, 4, 11, 12)  # NOOP, FIRE, RIGHT, LEFT, RIGHTFIRE and LEFTFIRE on the joystick: its minimal actions
STATES = ObservationSpec((4, 84, 84), frame_stack=4)


def play(reset, step, choose, steps):
    """Frames and actions; the state stacks the last four frames of two environments."""
    frame = reset()
    state = np.repeat(frame, 4, axis=1)
    seen = [frame.copy()]
    for _ in range(steps):
        frame = step(choose(state))
        state = np.concatenate([state[:, 1:], frame], axis=1)
        seen.append(frame.copy())
    return np.stack(seen)


def centre_outputs(model, states):
    """Random networks prefer one action everywhere; without its mean output, each action is the best in some states."""
    with torch.no_grad():
        model.policy.q_net.q_net[-1].bias -= model.policy.q_net(torch.tensor(states)).mean(dim=0)


def test_the_agent_takes_the_same_actions_through_the_joystick(tmp_path, monkeypatch):
    """500 steps of two copies of a game: once with its minimal actions and SB3's own `predict`, once with ours."""
    from ale_py.vector_env import AtariVectorEnv

    game = "Pong"
    options = {name: setting.value for name, setting in EMULATOR_SETTINGS.items()}
    options |= {"full_action_space": False, "img_height": 84, "img_width": 84}
    minimal = AtariVectorEnv(game=game.lower(), num_envs=2, **options)
    monkeypatch.setattr(Images, "action_space", minimal.single_action_space)
    model, rng, seen = sb3_agent(DQN, "CnnPolicy"), np.random.default_rng(0), []

    def explore(state):
        seen.append(state)
        return rng.integers(0, Images.action_space.n, 2)

    play(lambda: minimal.reset(seed=1)[0], lambda actions: minimal.step(actions)[0], explore, 50)
    centre_outputs(model, np.concatenate(seen))
    model.save(tmp_path / "agent.zip")
    task = find_task(f"ALE/{game}-v5")
    found = open_teacher(f"sb3:{tmp_path}/agent.zip", STATES)
    teacher = fit(found.network, found.weights, TaskInSequence(task, STATES, 18))
    joystick = task.open(EnvOptions(2, STATES.frame))
    used, pressed = [], []

    def predict(state):
        used.extend(actions := model.predict(state, deterministic=True)[0])
        return actions

    def choose(state):
        pressed.extend(actions := teacher(torch.tensor(state)).argmax(dim=1).numpy())
        return actions

    def step(actions):
        joystick.send(actions)
        return joystick.receive().observations

    try:
        theirs = play(lambda: minimal.reset(seed=3)[0], lambda actions: minimal.step(actions)[0], predict, 500)
        ours = play(lambda: joystick.reset(3), step, choose, 500)
    finally:
        minimal.close()
        joystick.close()
    assert np.array_equal(theirs, ours)
    assert [PONG[action] for action in used] == pressed
    assert len(used) == 1_000
    assert len({int(action) for action in used}) > 2  # else anything would pass


def test_frames_agree_with_those_of_sb3s_atari_wrapper():
    """SB3 pools two colour frames, greys and resizes them with OpenCV; ale-py greys by its palette before it pools. So
    only pixels through which something moves may differ by more than rounding."""
    pytest.importorskip("cv2")
    import ale_py
    import gymnasium
    from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv, WarpFrame

    from reaper.tasks.atari_wrapper import AtariScreen

    gymnasium.register_envs(ale_py)
    make = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": True}
    for game, share in (("Boxing", 0.0), ("Freeway", 0.02)):
        ours = AtariScreen(gymnasium.make(f"ALE/{game}-v5", **make), STATES.frame)
        theirs = WarpFrame(MaxAndSkipEnv(gymnasium.make(f"ALE/{game}-v5", **make), skip=4))
        ours.env.reset(seed=0)
        theirs.reset(seed=0)
        for action in np.random.default_rng(0).integers(0, 18, 100):
            mine, other = ours.step(int(action))[0][0], theirs.step(int(action))[0][..., 0]
            difference = np.abs(mine.astype(int) - other.astype(int))
            assert np.mean(difference > 1) <= share
            assert difference.max() <= 24
