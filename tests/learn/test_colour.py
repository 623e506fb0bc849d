"""Tasks that only their colour tells apart: one network learns both in colour, and cannot in grey."""

import numpy as np
import pytest
from colour_games import TASKS as GAMES
from conftest import run_plan

from reaper.results.runs import read_results
from reaper.study.options import StudyOptions
from reaper.study.plan import plan
from reaper.tasks import sequence
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import EnvOptions


@pytest.fixture(autouse=True)
def registered():
    for name, task in GAMES.items():
        sequence.register_task(name, task)
    yield
    for name in GAMES:
        del sequence.TASKS[name]


@pytest.mark.parametrize(("channels", "same"), [(1, True), (3, False)])
def test_only_colour_tells_the_games_apart(channels, same):
    apples, bombs = (game.open(EnvOptions(4, ObservationSpec((channels, 16, 16)))) for game in GAMES.values())
    assert np.array_equal(apples.reset(0), bombs.reset(0)) == same
    for actions in np.random.default_rng(0).integers(0, 6, (30, 4)):
        for envs in (apples, bombs):
            envs.send(actions)
        one, other = apples.receive(), bombs.receive()
        assert np.array_equal(one.observations, other.observations) == same
        assert np.array_equal(one.rewards, -other.rewards)


def learnt(out, **observation):
    """Final normalised scores of RePR on both games."""
    overrides = {f"observation.{name.replace('_', '-')}": value for name, value in observation.items()}
    options = StudyOptions(
        tasks="apples,bombs", preset="arcade", fraction=0.5, device="cpu", workers=1, overrides=overrides
    )
    (result,) = read_results(run_plan(plan(["RePR"], options), out))
    return result.matrix[-1]


@pytest.mark.long
def test_games_that_differ_in_colour_need_colour_or_an_identity(tmp_path):
    apples, bombs = learnt(tmp_path / "colour", colour=True)
    assert min(apples, bombs) > 0.9
    apples, bombs = learnt(tmp_path / "told", task_id="one-hot")
    assert min(apples, bombs) > 0.9
    apples, bombs = learnt(tmp_path / "grey")
    # What one game gains the other loses: in grey, one network sees one game, whose rewards have either sign.
    assert min(apples, bombs) < 0.1
