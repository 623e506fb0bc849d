"""Fitting a teacher from elsewhere to a sequence: its observations are made of the sequence's states, and its outputs
are given for the sequence's actions.

    state of the sequence -> newest frames or own features -> resized -> teacher's network -> sequence's actions

An Atari agent with a game's minimal action set answers for the joystick action that does the same. An action that the
task lacks is never chosen or learnt; its column is a copy of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from reaper.errors import UserError
from reaper.tasks.observation import IMAGE, ObservationSpec
from reaper.tasks.task import Task
from reaper.teachers.functions import FunctionNetwork, find_function
from reaper.teachers.layers import build_layers
from reaper.teachers.own import own_context


class TaskInSequence(NamedTuple):
    """A task, and what agents of its sequence see and do."""

    task: Task
    observation: ObservationSpec  # of their states
    num_actions: int
    scale: Any = None  # (centres, units) of the task's vectors in these states; None: as they are


class FittedTeacher(nn.Module):
    """States of the sequence (N, *observation.shape) -> the teacher's outputs for its actions (N, num_actions)."""

    def __init__(self, network: nn.Module, view: nn.Module, actions: Sequence[int]) -> None:
        super().__init__()
        self.network, self.view = network, view
        self.register_buffer("actions", torch.tensor(actions, dtype=torch.int64), persistent=False)

    def forward(self, states: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """Always in float32: `compute_dtype` is for networks in training."""
        return self.network(self.view(states)).index_select(1, self.get_buffer("actions"))


class ImageView(nn.Module):
    """The newest frames of a state, resized to what the teacher sees; divided by 255 where it was trained so."""

    def __init__(self, shape: Sequence[int], scaled: bool) -> None:
        super().__init__()
        self.shape, self.scaled = tuple(shape), scaled

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        newest = states[:, -self.shape[0] :].float()
        if newest.shape[2:] != self.shape[1:]:
            newest = resize(newest, self.shape[1:])
        return newest / 255 if self.scaled else newest


class VectorView(nn.Module):
    """The newest observation of a state as the task emits it: its own numbers, in their own units."""

    def __init__(self, place: TaskInSequence) -> None:
        super().__init__()
        emitted, frame = place.task.observation, place.observation.frame
        self.frame_size, self.features = frame.size, emitted.size if emitted else frame.size
        centres, units = place.scale or ((0.0,) * self.features, None)
        self.has_scale = units is not None
        self.register_buffer("centres", torch.tensor(centres, dtype=torch.float64), persistent=False)
        self.register_buffer("units", torch.tensor(units or centres, dtype=torch.float64), persistent=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        newest = states[:, -self.frame_size :][:, : self.features]
        if not self.has_scale:
            return newest
        z = newest.double()  # tasks/scaling.py: sign(z) log(1 + |z|)
        return (self.get_buffer("centres") + self.get_buffer("units") * z.sign() * z.abs().expm1()).float()


class OwnView(nn.Module):
    """States for a network of ours: its own number of frames, padded to its own length."""

    def __init__(self, place: TaskInSequence, theirs: ObservationSpec) -> None:
        super().__init__()
        self.ours, self.theirs = place.observation, theirs

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        frames = states.unflatten(1, (self.ours.frame_stack, -1))[:, -self.theirs.frame_stack :]
        missing = self.theirs.frame.shape[0] - frames.shape[2]
        if self.ours.kind != IMAGE and missing:
            frames = nn.functional.pad(frames, (0, missing))
        return frames.flatten(1, 2)


def resize(images: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Float images (N, channels, h, w) of whole numbers -> (N, channels, *size): area means when they shrink, the
    nearest pixel when they grow, as tasks resize them."""
    shrinks = min(images.shape[2:]) >= max(size)
    mode: dict[str, Any] = {"mode": "area"} if shrinks else {"mode": "nearest-exact"}
    return nn.functional.interpolate(images, size=tuple(size), **mode).round()


class _Mean(nn.Module):
    """Q-values of a distributional agent: the mean over the quantiles of each action."""

    def __init__(self, quantiles: int, num_actions: int) -> None:
        super().__init__()
        self.shape = (-1, quantiles, num_actions)

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.view(self.shape).mean(dim=1)


def fit(network: Mapping[str, Any], weights: Mapping[str, torch.Tensor], place: TaskInSequence) -> FittedTeacher:
    """The teacher of a task in a sequence."""
    if place.observation.identity:
        raise UserError("an agent from elsewhere does not know the identities of tasks; use --observation.task-id none")
    actions, is_image = action_map(network["num_actions"], place), place.observation.kind == IMAGE
    if network["family"] == "function":
        function = FunctionNetwork(network["function"], find_function(network["function"]))
        return FittedTeacher(function, nn.Identity() if is_image else VectorView(place), actions)
    if network["family"] == "reaper":
        return _fit_own(network, weights, place, actions)
    shape = network["shape"]
    check_shape(place, shape)
    built: nn.Module = build_layers(network["layers"], weights)
    if network["quantiles"] > 1:
        built = nn.Sequential(built, _Mean(network["quantiles"], network["num_actions"]))
    view = ImageView(shape, network["scaled"]) if is_image else VectorView(place)
    return FittedTeacher(built, view, actions)


def _fit_own(
    network: Mapping[str, Any], weights: Mapping[str, torch.Tensor], place: TaskInSequence, actions: Sequence[int]
) -> FittedTeacher:
    context = own_context(network)
    ours, theirs, name = place.observation, context.observation, place.task.name
    same_frames = ours.frame == theirs.frame if ours.kind == IMAGE else ours.kind == theirs.kind
    if not same_frames or theirs.frame_stack > ours.frame_stack or theirs.frame.size < _own_size(place):
        raise UserError(f"the teacher of {name} sees {theirs}, and this sequence {ours}")
    scale = context.settings.scales.get(name)
    if ours.kind != IMAGE and scale is not None and place.scale is not None and _plain(scale) != _plain(place.scale):
        raise UserError(f"the teacher of {name} was trained with another scale of its observations")
    built = context.q_network(dict(weights)).eval().requires_grad_(False)
    return FittedTeacher(built, OwnView(place, theirs), actions)


def _own_size(place: TaskInSequence) -> int:
    return place.task.observation.size if place.task.observation else place.observation.frame.size


def _plain(scale: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(numbers) for numbers in scale]


def check_shape(place: TaskInSequence, shape: Sequence[int]) -> None:
    """Raises UserError where observations of this shape cannot be made of the sequence's states."""
    wanted, observation, name = "x".join(map(str, shape)), place.observation, place.task.name
    if observation.kind == IMAGE and len(shape) == 3:
        channels = observation.frame.shape[0]
        if shape[0] % channels == 0 and shape[0] <= observation.shape[0]:
            return
        frames = -(-shape[0] // channels)
        hint = f"; give --observation.frame-stack {frames}" if shape[0] > observation.shape[0] else ""
        raise UserError(f"the teacher of {name} sees {wanted}, and this sequence {observation}{hint}")
    if observation.kind == IMAGE or len(shape) != 1:
        raise UserError(f"the teacher of {name} sees {wanted}, and this sequence {observation}")
    if shape[0] != _own_size(place):
        raise UserError(f"the teacher of {name} sees {shape[0]} numbers, and the task has {_own_size(place)}")


def action_map(count: int, place: TaskInSequence) -> list[int]:
    """For each action of the sequence, the teacher's action that does the same in this task."""
    task, num_actions = place.task, place.num_actions
    if count == num_actions or count == task.num_actions:
        return [action if action < count else 0 for action in range(num_actions)]
    if task.name.startswith("ALE/"):
        from reaper.tasks.atari_wrapper import joystick_to_minimal

        mapped = joystick_to_minimal(task.name)
        if count == max(mapped) + 1:
            return mapped
        raise UserError(f"the teacher of {task.name} has {count} actions; the game has {max(mapped) + 1} or 18")
    raise UserError(f"the teacher of {task.name} has {count} actions, and the task {task.num_actions}")
