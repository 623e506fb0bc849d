"""The preprocessing that an agent was trained with, for any Gymnasium environment.

    environment's image, board or vector -> frame of the agent -> stack of frames, the oldest first -> agent
    agent's action -> action of the environment

An Atari environment of ale-py also skips and pools frames as training did (atari_wrapper.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.wrappers import FrameStackObservation, ReshapeObservation, TransformAction, TransformObservation

from reaper.config.settings import Settings
from reaper.errors import UserError
from reaper.tasks.atari_wrapper import AtariScreen, shows_screen
from reaper.tasks.boards import board_images
from reaper.tasks.gymnasium import check_actions, to_frames
from reaper.tasks.identity import place_of, with_identity
from reaper.tasks.observation import BOARD, IMAGE, ObservationSpec
from reaper.tasks.scaling import Scale, pad
from reaper.tasks.sequence import seen_as
from reaper.tasks.spaces import as_array, board_values, emitted_spec
from reaper.tasks.task_env import box


def wrap(
    env: gymnasium.Env, state: ObservationSpec, num_actions: int, settings: Settings | None = None
) -> gymnasium.Env:
    """The environment as an agent sees it that observes `state` and chooses among `num_actions` actions. Its settings
    hold the scales of its tasks, where it observes vectors, and their identities."""
    if not isinstance(env, gymnasium.Env):
        what = f"{type(env).__module__.partition('.')[0]}.{type(env).__name__}"
        raise UserError(f"wrap takes one gymnasium.Env, not {what}; wrap each copy before you vectorise them")
    discrete_actions(env)
    settings = settings or Settings()
    framed = _with_frames(env, state.frame.without_identity, settings.scales)
    return stack_frames(_with_actions(_with_identity(framed, state.frame, settings), num_actions), state)


def discrete_actions(env: gymnasium.Env) -> Discrete:
    """The action space of an environment; one that is not discrete is refused."""
    check_actions(_name(env), env.action_space)
    assert isinstance(env.action_space, Discrete)
    return env.action_space


def stack_frames(env: gymnasium.Env, state: ObservationSpec) -> gymnasium.Env:
    """States instead of frames; at the start of an episode its first frame stands in for the frames before it."""
    stacked = FrameStackObservation(env, state.frame_stack, padding_type="reset")  # (frame_stack, *frame.shape)
    return ReshapeObservation(stacked, state.shape)


def _with_frames(env: gymnasium.Env, frame: ObservationSpec, scales: Mapping[str, Any]) -> gymnasium.Env:
    space = env.observation_space
    if space.shape == frame.shape and space.dtype == np.dtype(frame.dtype) and frame.kind == IMAGE:
        return env
    if shows_screen(env):
        return AtariScreen(env, frame)
    emitted = emitted_spec(_name(env), space)
    if not seen_as(emitted, frame):
        shown = emitted or "images"
        raise UserError(f"{_name(env)} observes {space}, taken as {shown}; this agent needs {frame}")
    env = as_array(env)
    return TransformObservation(env, _conversion(env, emitted, frame, scales), box(frame))


def _conversion(
    env: gymnasium.Env, emitted: ObservationSpec | None, frame: ObservationSpec, scales: Mapping[str, Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """From one observation of the environment to one of the agent."""
    if emitted is None:
        return lambda image: to_frames(image[None], frame)[0]
    if emitted.kind == BOARD:
        return lambda board: board_images(board_values(board[None], env.observation_space), frame)[0]
    if _name(env) not in scales:
        known = ", ".join(scales)
        raise UserError(f"this agent knows no scale for the observations of {_name(env)}, only of {known}")
    scale = Scale.of(_name(env), scales[_name(env)], emitted.size)
    return lambda vector: pad(scale.apply(vector[None]), frame)[0]


def _with_identity(env: gymnasium.Env, frame: ObservationSpec, settings: Settings) -> gymnasium.Env:
    place = place_of(_name(env), settings.observation)
    if place is None:
        return env
    return TransformObservation(env, lambda own: with_identity(own[None], place, frame)[0], box(frame))


def _with_actions(env: gymnasium.Env, num_actions: int) -> gymnasium.Env:
    """Actions from 0 on. One that the environment does not have becomes its first: `Agent.for_task` never chooses it,
    but the agent itself may."""
    actions = discrete_actions(env)
    first, known = int(actions.start), int(actions.n)
    own = Discrete(min(known, num_actions))
    return TransformAction(env, lambda action: first + (action if action < known else 0), own)


def _name(env: gymnasium.Env) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
