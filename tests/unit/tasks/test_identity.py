"""Task identity: which part of an observation it is, and that agents keep it wherever they go."""

import gymnasium
import numpy as np
import pytest
from colour_games import TASKS as GAMES
from conftest import plan_tiny, run_tiny

import reaper
from reaper.cli.main import main
from reaper.config.settings import ObservationSettings
from reaper.errors import UserError
from reaper.results.runs import read_results
from reaper.tasks import sequence
from reaper.tasks.identity import with_identity
from reaper.tasks.observation import ObservationSpec, state_spec, vector_spec

ONE_HOT = {"observation.task-id": "one-hot"}


@pytest.fixture
def games():
    for name, task in GAMES.items():
        sequence.register_task(name, task)
    yield "apples,bombs"
    for name in GAMES:
        del sequence.TASKS[name]


def test_the_identity_comes_after_what_a_task_shows():
    image = ObservationSpec((4, 2, 2), identity=3)
    found = with_identity(np.full((1, 1, 2, 2), 7, np.uint8), 1, image)
    assert [channel.flat[0] for channel in found[0]] == [7, 0, 255, 0]
    vector = with_identity(np.array([[0.5, -2]], np.float32), 0, vector_spec(4))
    assert vector.tolist() == [[0.5, -2, 1, 0]]


def test_the_settings_say_how_many_tasks_there_are():
    settings = ObservationSettings(frame_size=16, frame_stack=2, task_id="one-hot", task_names="a,b,c")
    state = state_spec(settings)
    assert (state.shape, state.frame.shape) == ((8, 16, 16), (4, 16, 16))
    assert state.frame.without_identity == ObservationSpec((1, 16, 16))
    assert state_spec(ObservationSettings(frame_size=16, frame_stack=2, task_names="a,b")).shape == (2, 16, 16)


def test_without_it_nothing_changes():
    plain, named = (plan_tiny(["RePR"], "catch,dodge", overrides=more).chains[0] for more in ({}, ONE_HOT))
    assert plain.settings.observation.task_names == ""
    assert named.settings.observation.task_names == "catch,dodge"
    assert not {stage.digest for stage in plain.stages} & {stage.digest for stage in named.stages}


def test_a_task_without_a_place_is_refused():
    overrides = {**ONE_HOT, "observation.task-names": "catch,frog"}
    with pytest.raises(UserError, match=r"dodge has no place in --observation.task-names, which are catch, frog"):
        plan_tiny(["RePR"], "catch,dodge", overrides=overrides)


@pytest.mark.long
def test_games_that_look_the_same_are_told_apart(games, tmp_path):
    overrides = {**ONE_HOT, "observation.task-names": "apples,bombs,catch"}
    store = run_tiny(tmp_path / "out", ["RePR", "reh"], games, preset="arcade", overrides=overrides)
    assert all(result.finished for result in read_results(store))
    assert main(["report", str(tmp_path / "out")]) == 0
    agent = reaper.load(tmp_path / "out", condition="RePR")
    apples, bombs = (agent.make_env(name).reset(seed=0)[0].reshape(2, 4, 16, 16) for name in GAMES)
    assert np.array_equal(apples[:, :1], bombs[:, :1])  # the stack's two frames: grey, then the identity
    assert apples[:, 1].min() == bombs[:, 2].min() == 255
    assert not apples[:, 2:].any()
    assert next(iter(agent.play("apples")))[0].shape == (16, 16)
    more = {"continue_from": tmp_path / "out", "from_condition": "RePR", "preset": "arcade", "overrides": ONE_HOT}
    continued = run_tiny(tmp_path / "more", ["RePR"], "catch", **more)
    assert all(result.finished for result in read_results(continued))
    with pytest.raises(UserError, match=r"dodge has no place in --observation.task-names"):
        plan_tiny(["RePR"], "dodge", **more)


@pytest.mark.long
def test_vectors_and_wrapped_environments_have_it_too(tmp_path):
    tasks = "CartPole-v1,Acrobot-v1"
    run_tiny(tmp_path / "out", ["no-reh"], tasks, overrides=ONE_HOT)
    agent = reaper.load(tmp_path / "out")
    assert agent.observation.shape == (8,)  # Acrobot's six numbers and two tasks
    for name, identity in (("CartPole-v1", [1, 0]), ("Acrobot-v1", [0, 1])):
        state, _ = agent.wrap(gymnasium.make(name)).reset(seed=0)
        assert state[-2:].tolist() == identity
        assert np.array_equal(state, agent.make_env(name).reset(seed=0)[0])
