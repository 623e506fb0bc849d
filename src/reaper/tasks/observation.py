"""What an agent observes: shape, element type and kind, in one place.

A task emits one observation per agent step (`frame`); an agent sees the last few of them, stacked along the first axis
(`stacked`). Networks, replay, generators, reports and `Agent` are built from the spec of such a state.

    kind      one observation              a state of `frame_stack` observations, the oldest first    networks
    image     (channels, height, width)    (frame_stack * channels, height, width)                  convolutions
    vector    (features,)                  (frame_stack * features,)                                MLPs
    board     (channels, height, width)    seen as images: cells are enlarged (boards.py)           convolutions

What tasks emit decides the kind, and settings the rest. `Sequence.complete` (sequence.py) writes into the settings what
only the tasks know; from then on `state_spec` is the one function from settings to the spec, for everything that is
planned, run, stored, loaded or reported. Which networks fit a kind is said in networks/families.py and generators/gan.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reaper.config.settings import ObservationSettings
from reaper.errors import UserError

if TYPE_CHECKING:
    import torch

IMAGE, VECTOR, BOARD = "image", "vector", "board"
DIMENSIONS = {IMAGE: 3, VECTOR: 1, BOARD: 3}
DTYPES = {IMAGE: ("uint8",), VECTOR: ("float32",), BOARD: ("uint8",)}
COLOURS = 3  # channels of a colour image
SMALL_FRAME = 36  # pixels per side; below, networks are scaled down, and neither compiling nor channels-last pays


@dataclass(frozen=True)
class ObservationSpec:
    """One observation, or a stack of them."""

    shape: tuple[int, ...]
    dtype: str = "uint8"  # as NumPy and torch name it
    kind: str = IMAGE
    frame_stack: int = 1  # how many observations `shape` holds
    identity: int = 0  # how many of an observation's last channels or features tell which task it is (identity.py)

    def __post_init__(self) -> None:
        if self.kind not in DIMENSIONS:
            raise UserError(f"unknown kind of observation {self.kind!r}; supported: {', '.join(DIMENSIONS)}")
        if len(self.shape) != DIMENSIONS[self.kind] or min(self.shape) < 1:
            raise UserError(f"an observation of kind {self.kind} needs {DIMENSIONS[self.kind]} axes, not {self.shape}")
        if self.dtype not in DTYPES[self.kind]:
            raise UserError(f"an observation of kind {self.kind} is {DTYPES[self.kind][0]}, not {self.dtype}")
        if self.frame_stack < 1 or self.shape[0] % self.frame_stack:
            raise UserError(f"an observation of shape {self.shape} is no stack of {self.frame_stack}")

    def stacked(self, frame_stack: int) -> ObservationSpec:
        """The state of an agent that sees this many of these observations."""
        return replace(self, shape=(frame_stack * self.shape[0], *self.shape[1:]), frame_stack=frame_stack)

    @property
    def frame(self) -> ObservationSpec:
        """One observation of the stack: what a task emits and a replay stores."""
        return replace(self, shape=(self.shape[0] // self.frame_stack, *self.shape[1:]), frame_stack=1)

    @property
    def without_identity(self) -> ObservationSpec:
        """Of one observation: what the task itself shows."""
        return replace(self, shape=(self.shape[0] - self.identity, *self.shape[1:]), identity=0)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def torch_dtype(self) -> torch.dtype:
        import torch  # here: listing tasks does not need it

        return getattr(torch, self.dtype)

    def __str__(self) -> str:
        size = "x".join(map(str, self.frame.shape))
        if self.frame_stack == 1:
            return f"{size} {self.dtype} {self.kind}s"
        return f"stacks of {self.frame_stack} {size} {self.dtype} {self.kind}s"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ObservationSpec:
        try:
            return cls(**{**values, "shape": tuple(values["shape"])})
        except (KeyError, TypeError) as error:
            raise UserError(f"this is no observation spec: {str(error)[:80]}") from None


def to_picture(observation: np.ndarray, identity: int = 0) -> np.ndarray:
    """One image observation as image writers take it: grey (height, width) or colour (height, width, 3)."""
    return pictures(observation[None], len(observation), identity)[0, 0]


def pictures(states: np.ndarray, channels: int, identity: int = 0) -> np.ndarray:
    """The frames of stacked images (N, frame_stack * channels, height, width), for people to look at: grey
    (N, frame_stack, height, width) or in colour (N, frame_stack, height, width, 3).

    Three channels are red, green and blue. Any other number, as boards have, gets one hue per channel, mixed by their
    values. Channels that identify the task are left out."""
    frames = states.reshape(len(states), states.shape[1] // channels, channels, *states.shape[2:])
    channels -= identity
    frames = frames[:, :, :channels]
    if channels == 1:
        return frames[:, :, 0]
    if channels == COLOURS:
        return np.moveaxis(frames, 2, -1)
    hues = np.array([colorsys.hsv_to_rgb(channel / channels, 0.8, 1.0) for channel in range(channels)])
    mixed = np.einsum("nsc...,ck->ns...k", frames.astype(np.float32), hues)
    return np.rint(mixed).clip(0, 255).astype(np.uint8)


def state_spec(settings: ObservationSettings) -> ObservationSpec:
    """What an agent with these settings sees: stacked vectors of `features` numbers, or square images."""
    return frame_spec(settings).stacked(settings.frame_stack)


def frame_spec(settings: ObservationSettings) -> ObservationSpec:
    """One observation of its tasks, as the agent sees it."""
    identity = len(task_identities(settings))
    if settings.features:
        return replace(vector_spec(settings.features + identity), identity=identity)
    channels = settings.channels or (COLOURS if settings.colour else 1)
    return ObservationSpec((channels + identity, settings.frame_size, settings.frame_size), identity=identity)


def task_identities(settings: ObservationSettings) -> list[str]:
    """The tasks that an agent is told apart, in the order of their places in the identity; none by default."""
    return settings.task_names.split(",") if settings.task_id == "one-hot" and settings.task_names else []


def vector_spec(features: int) -> ObservationSpec:
    """Vectors of float32."""
    return ObservationSpec((features,), "float32", VECTOR)
