"""What an agent sees of a MiniGrid environment: its view of the grid, as a board of three channels.

MiniGrid's own observation is a Dict of the `image` (7 x 7 cells in front of the agent, or the whole grid with
FullyObsWrapper), the agent's `direction`, and the `mission`, a text. Networks of ours read no text, so only the image
is kept, as by MiniGrid's ImgObsWrapper: choose tasks whose goal can be seen. MiniGrid declares all of its numbers as 0
to 255, but they are small codes: here their real range is declared, so that they are spread over 0 to 255.

This module imports neither minigrid nor torch.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.wrappers import TransformObservation

# The largest code of an object (the agent itself), of a colour (grey), and of a state (a direction, or a locked door).
HIGHEST_CODES = (10, 5, 3)


def is_minigrid(space: Space) -> bool:
    """Whether this is MiniGrid's own observation space."""
    if not isinstance(space, Dict) or type(space.spaces.get("mission")).__name__ != "MissionSpace":
        return False
    image = space.spaces.get("image")
    return isinstance(image, Box) and len(image.shape) == 3 and image.shape[2] == len(HIGHEST_CODES)


def board_space(space: Space) -> Box:
    """The space of the boards of an environment with this observation space: rows, columns and codes."""
    assert isinstance(space, Dict)
    image = space.spaces["image"]
    assert image.shape is not None
    columns, rows, _ = image.shape  # MiniGrid counts columns first
    highest = np.broadcast_to(np.array(HIGHEST_CODES, np.uint8), (rows, columns, len(HIGHEST_CODES)))
    return Box(np.zeros_like(highest), highest, dtype=np.uint8)


def board_view(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with such boards as observations."""
    return TransformObservation(env, lambda seen: seen["image"].swapaxes(0, 1), board_space(env.observation_space))
