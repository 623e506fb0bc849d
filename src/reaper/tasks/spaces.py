"""The one rule from a Gymnasium observation space to what a task emits.

    space                                                   what a task emits (`Task.observation`)
    uint8 Box (height, width[, 1 or 3]), 0 to 255           None: images, grey or in colour, resized as the settings ask
    Box or MultiBinary (height, width[, channels]) of       boards, their values spread over 0 to 255 by the bounds
    booleans or integers, with finite bounds, otherwise
    Box or MultiBinary with one axis                        vectors
    MiniGrid's Dict of image, direction and mission         boards: the image alone (minigrid.py)
    Discrete, MultiDiscrete, Dict, Tuple                    vectors, by Gymnasium's `flatten`: one-hot where discrete

Boards of three channels and uint8 that are declared as 0 to 255 cannot be told from images; below `SMALLEST_IMAGE`
pixels per side they are boards. This module imports no torch.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.wrappers import FlattenObservation

from reaper.errors import UserError
from reaper.tasks.minigrid import board_space, board_view, is_minigrid
from reaper.tasks.observation import BOARD, COLOURS, ObservationSpec, vector_spec

SMALLEST_IMAGE = 12  # pixels per side
MAX_FEATURES = 4_096  # of a vector that parts are flattened to: with more, one of them is an image
MAX_CELLS = 84  # of a board, per side


def as_array(env: gymnasium.Env) -> gymnasium.Env:
    """The environment, with observations in one array."""
    if is_minigrid(env.observation_space):
        return board_view(env)
    return env if isinstance(env.observation_space, Box | MultiBinary) else FlattenObservation(env)


def emitted_spec(name: str, space: Space) -> ObservationSpec | None:
    """What a task with this space emits; a space that cannot work is refused with the closest that can."""
    if is_minigrid(space):
        space = board_space(space)
    if is_image(space):
        return None
    if is_board(space):
        return board_spec(space)
    if isinstance(space, Box | MultiBinary) and len(space.shape) == 1 and space.shape[0]:
        return vector_spec(space.shape[0])
    if isinstance(space, Box | MultiBinary):
        raise _refused(name, space, _alternative(space))
    for path, part in _parts(space):
        if not isinstance(part, Box | Discrete | MultiBinary | MultiDiscrete):
            which = f"its part {path!r}, a {type(part).__name__}, is no array" if path else "that is no array"
            raise _refused(name, space, f"{which}; leave it out or encode it with a wrapper", path)
        if _size(part) > MAX_FEATURES:
            which = f"its part {path!r} has" if path else "it has"
            what = f"{which} {_size(part):,} numbers, too many for a vector; observe it alone, as an image"
            raise _refused(name, space, what, path)
    return vector_spec(_size(space))


def is_image(space: Space) -> bool:
    """Whether these are images that can be made grey and resized."""
    shape = space.shape or ()
    if (
        not isinstance(space, Box)
        or space.dtype != np.uint8
        or len(shape) not in (2, 3)
        or shape[2:] not in ((), (1,), (3,))
    ):
        return False
    return min(shape[:2]) >= SMALLEST_IMAGE and int(space.high.max()) == 255


def is_board(space: Space) -> bool:
    shape = space.shape or ()
    if not isinstance(space, Box | MultiBinary) or len(shape) not in (2, 3) or 0 in shape or max(shape[:2]) > MAX_CELLS:
        return False
    return isinstance(space, MultiBinary) or np.dtype(space.dtype).kind in "bui"


def board_spec(space: Space) -> ObservationSpec:
    assert space.shape is not None  # `is_board`
    height, width, *channels = space.shape
    return ObservationSpec((*(channels or [1]), height, width), kind=BOARD)


def board_values(boards: np.ndarray, space: Space) -> np.ndarray:
    """(N, height, width[, channels]) -> (N, channels, height, width) uint8: the lowest value is 0, the highest 255."""
    low, high = (space.low, space.high) if isinstance(space, Box) else (np.zeros(()), np.ones(()))
    low, span = low.astype(np.float64), np.maximum(1.0, high.astype(np.float64) - low.astype(np.float64))
    values = np.rint((boards - low) / span * 255).clip(0, 255).astype(np.uint8)
    return values[:, None] if values.ndim == 3 else np.ascontiguousarray(np.moveaxis(values, -1, 1))


def _parts(space: Space, path: str = "") -> list[tuple[str, Space]]:
    """The parts of a nested space, by their names."""
    if isinstance(space, Dict):
        named = list(space.spaces.items())
    elif isinstance(space, Tuple):
        named = list(enumerate(space.spaces))
    else:
        return [(path, space)]
    return [found for name, part in named for found in _parts(part, f"{path}.{name}".lstrip("."))]


def _size(space: Space) -> int:
    return int(gymnasium.spaces.flatdim(space))


def _alternative(space: Box | MultiBinary) -> str:
    if isinstance(space, Box) and np.dtype(space.dtype).kind == "f":
        return "flatten it to a vector (gymnasium.wrappers.FlattenObservation), or make it a uint8 image"
    return (
        f"a task needs uint8 images (height, width[, 1 or {COLOURS}]), boards (height, width[, channels]) of at most "
        f"{MAX_CELLS} cells per side (see gymnasium.wrappers.ResizeObservation), or vectors: a Box with one axis"
    )


def _refused(name: str, space: Space, what: str, part: str = "") -> UserError:
    shown = type(space).__name__ if part else str(space)
    return UserError(f"{name} observes {' '.join(shown.split())[:200]}; {what}")
