"""The preprocessing that an agent was trained with, for any Gymnasium environment.

    environment's image -> grey, resized frame -> stack of frames, the oldest first -> agent
    environment's vector -> scaled and padded vector -> stack of vectors -> agent
    agent's action -> action of the environment

An Atari environment of ale-py also skips and pools frames as training did (atari_wrapper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FrameStackObservation, ReshapeObservation, TransformAction, TransformObservation

from reaper.errors import UserError
from reaper.tasks.atari_wrapper import AtariScreen, shows_screen
from reaper.tasks.gymnasium import check_actions, is_image, to_grey
from reaper.tasks.observation import VECTOR, ObservationSpec
from reaper.tasks.scaling import Scale, pad
from reaper.tasks.task_env import box


def wrap(
    env: gymnasium.Env, state: ObservationSpec, num_actions: int, scales: Mapping[str, Any] | None = None
) -> gymnasium.Env:
    """The environment as an agent sees it that observes `state` and chooses among `num_actions` actions. Vectors are
    scaled as in training, by the environment's entry in `scales`."""
    if not isinstance(env, gymnasium.Env):
        what = f"{type(env).__module__.partition('.')[0]}.{type(env).__name__}"
        raise UserError(f"wrap takes one gymnasium.Env, not {what}; wrap each copy before you vectorise them")
    discrete_actions(env)
    frames = _with_vectors(env, state.frame, scales or {}) if state.kind == VECTOR else _with_frames(env, state.frame)
    return stack_frames(_with_actions(frames, num_actions), state)


def discrete_actions(env: gymnasium.Env) -> Discrete:
    """The action space of an environment; one that is not discrete is refused."""
    check_actions(_name(env), env.action_space)
    assert isinstance(env.action_space, Discrete)
    return env.action_space


def stack_frames(env: gymnasium.Env, state: ObservationSpec) -> gymnasium.Env:
    """States instead of frames; at the start of an episode its first frame stands in for the frames before it."""
    stacked = FrameStackObservation(env, state.frame_stack, padding_type="reset")  # (frame_stack, *frame.shape)
    return ReshapeObservation(stacked, state.shape)


def _with_vectors(env: gymnasium.Env, frame: ObservationSpec, scales: Mapping[str, Any]) -> gymnasium.Env:
    """Scaled, and padded with zeros."""
    name, space = _name(env), env.observation_space
    if name not in scales:
        raise UserError(f"this agent knows no scale for the observations of {name}, only of {', '.join(scales)}")
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise UserError(f"{name} observes {space}; this agent needs vectors")
    scale = Scale.of(name, scales[name], space.shape[0])
    return TransformObservation(env, lambda vector: pad(scale.apply(vector[None]), frame)[0], box(frame))


def _with_frames(env: gymnasium.Env, frame: ObservationSpec) -> gymnasium.Env:
    space = env.observation_space
    if space.shape == frame.shape and space.dtype == np.dtype(frame.dtype):
        return env
    if shows_screen(env):
        return AtariScreen(env, frame)
    if not is_image(space):
        raise UserError(f"{_name(env)} observes {space}; this agent needs {frame}, or uint8 images to make them of")
    return TransformObservation(env, lambda image: to_grey(image[None], *frame.shape[1:])[0], box(frame))


def _with_actions(env: gymnasium.Env, num_actions: int) -> gymnasium.Env:
    """Actions from 0 on. One that the environment does not have becomes its first: `Agent.for_task` never chooses it,
    but the agent itself may."""
    actions = discrete_actions(env)
    first, known = int(actions.start), int(actions.n)
    own = Discrete(min(known, num_actions))
    return TransformAction(env, lambda action: first + (action if action < known else 0), own)


def _name(env: gymnasium.Env) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
