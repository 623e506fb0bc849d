"""MiniGrid's observations as boards. The environment is a stand-in, so that no test needs the package."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Space, Text

from reaper.errors import UserError
from reaper.tasks.gymnasium import gymnasium_task
from reaper.tasks.minigrid import is_minigrid
from reaper.tasks.observation import BOARD, ObservationSpec
from reaper.tasks.sequence import SEQUENCES, find_task, open_task
from reaper.tasks.task import EnvOptions
from reaper.tasks.titles import short_title

IMAGE = Box(0, 255, (3, 2, 3), np.uint8)  # three columns, two rows


class MissionSpace(Space):
    """As MiniGrid has it: no subclass of Text."""


class Grid(gymnasium.Env):
    """A key in the upper right corner."""

    observation_space = Dict(direction=Discrete(4), image=IMAGE, mission=MissionSpace())
    action_space = Discrete(7)

    def reset(self, *, seed=None, options=None):
        image = np.zeros((3, 2, 3), np.uint8)
        image[2, 0] = 5, 4, 3
        return {"direction": 0, "image": image, "mission": "get the key"}, {}

    def step(self, action):
        return (*self.reset()[:1], 0.0, False, False, {})


@pytest.fixture
def grid():
    gymnasium.register("Grid-v0", Grid, disable_env_checker=True)
    yield "Grid-v0"
    del gymnasium.registry["Grid-v0"]


def test_the_view_becomes_a_board_of_codes_spread_by_their_range(grid):
    task = find_task(grid)
    assert task.observation == ObservationSpec((3, 2, 3), kind=BOARD)
    envs = open_task(task, EnvOptions(2, ObservationSpec((3, 4, 4)), env_workers=0))
    seen = envs.reset(0)
    envs.close()
    expected = np.zeros((2, 3, 4, 4), np.uint8)
    expected[:, :, 0, 2] = 128, 204, 255  # object 5 of 10, colour 4 of 5, state 3 of 3
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize(
    "space",
    [IMAGE, Dict(image=IMAGE), Dict(image=IMAGE, mission=Text(9)), Dict(image=Discrete(3), mission=MissionSpace())],
)
def test_other_spaces_are_not_taken_for_its_own(space):
    assert not is_minigrid(space)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(UserError, match=r"cannot be opened: .*minigrid.*; pip install 'reaper-rl\[minigrid\]'$"):
        gymnasium_task(SEQUENCES["minigrid-3"][0])


def test_titles_leave_out_what_all_of_them_share():
    titles = [short_title(name) for name in SEQUENCES["minigrid-3"]]
    assert titles == ["Lava Gap S5", "Door Key 5x5", "Dynamic Obstacles 5x5"]
