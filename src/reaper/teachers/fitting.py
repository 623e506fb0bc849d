"""Fitting a teacher from elsewhere to a sequence: its observations are made of the sequence's states, and its outputs
are given for the sequence's actions.

    state of the sequence -> newest frames or own features -> resized -> teacher's network -> sequence's actions

An Atari agent with a game's minimal action set answers for the joystick action that does the same. An action that the
task lacks is never chosen or learnt; its column is a copy of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from reaper.errors import UserError
from reaper.tasks.observation import IMAGE, ObservationSpec
from reaper.tasks.task import Task
from reaper.teachers.functions import FunctionNetwork, find_function
from reaper.teachers.layers import build_layers
from reaper.teachers.own import own_context


class FittedTeacher(nn.Module):
    """States of the sequence (N, *observation.shape) -> the teacher's outputs for its actions (N, num_actions)."""

    def __init__(self, network: nn.Module, view: nn.Module, actions: Sequence[int]) -> None:
        super().__init__()
        self.network, self.view = network, view
        self.register_buffer("actions", torch.tensor(actions, dtype=torch.int64), persistent=False)

    def forward(self, states: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
        """Always in float32: `compute_dtype` is for networks in training."""
        return self.network(self.view(states)).index_select(1, self.get_buffer("actions"))


class View(nn.Module):
    """The newest part of a state, resized to what the teacher sees; float, divided by 255 where it was trained so."""

    def __init__(self, observation: ObservationSpec, shape: Sequence[int], scaled: bool) -> None:
        super().__init__()
        self.shape, self.scaled = tuple(shape), scaled
        self.is_image = observation.kind == IMAGE

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if not self.is_image:
            return states[:, : self.shape[0]].float()
        newest = states[:, -self.shape[0] :].float()
        if newest.shape[2:] != self.shape[1:]:
            newest = resize(newest, self.shape[1:])
        return newest / 255 if self.scaled else newest


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


def fit(
    network: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    task: Task,
    observation: ObservationSpec,
    num_actions: int,
) -> FittedTeacher:
    """The teacher of a task in a sequence whose agents see `observation` and choose among `num_actions` actions."""
    actions = action_map(network["num_actions"], task, num_actions)
    if network["family"] == "function":
        function = FunctionNetwork(network["function"], find_function(network["function"]))
        return FittedTeacher(function, nn.Identity(), actions)
    if network["family"] == "reaper":
        context = own_context(network)
        shape = context.observation.shape
        check_view(task, observation, shape)
        built = context.q_network(dict(weights)).eval().requires_grad_(False)
        return FittedTeacher(
            nn.Sequential(_Bytes(context.observation), built), View(observation, shape, False), actions
        )
    built = build_layers(network["layers"], weights)
    if network["quantiles"] > 1:
        built = nn.Sequential(built, _Mean(network["quantiles"], network["num_actions"]))
    check_view(task, observation, network["shape"])
    return FittedTeacher(built, View(observation, network["shape"], network["scaled"]), actions)


class _Bytes(nn.Module):
    """Back to the dtype in which a network of ours takes its states."""

    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__()
        self.dtype = observation.torch_dtype

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states.to(self.dtype)


def check_view(task: Task, observation: ObservationSpec, shape: Sequence[int]) -> None:
    """Raises UserError where a teacher's observations cannot be made of the sequence's states."""
    wanted = "x".join(map(str, shape))
    if observation.kind == IMAGE and len(shape) == 3:
        channels = observation.frame.shape[0]
        if shape[0] % channels == 0 and shape[0] <= observation.shape[0]:
            return
        frames = -(-shape[0] // channels)
        hint = f"; give --observation.frame-stack {frames}" if shape[0] > observation.shape[0] else ""
        raise UserError(f"the teacher of {task.name} sees {wanted}, and this sequence {observation}{hint}")
    if observation.kind != IMAGE and len(shape) == 1 and shape[0] <= observation.frame.shape[0]:
        return
    raise UserError(f"the teacher of {task.name} sees {wanted}, and this sequence {observation}")


def action_map(count: int, task: Task, num_actions: int) -> list[int]:
    """For each action of the sequence, the teacher's action that does the same in this task."""
    if count == num_actions or count == task.num_actions:
        return [action if action < count else 0 for action in range(num_actions)]
    if task.name.startswith("ALE/"):
        from reaper.tasks.atari_wrapper import joystick_to_minimal

        mapped = joystick_to_minimal(task.name)
        if count == max(mapped) + 1:
            return mapped
        raise UserError(f"the teacher of {task.name} has {count} actions; the game has {max(mapped) + 1} or 18")
    raise UserError(f"the teacher of {task.name} has {count} actions, and the task {task.num_actions}")
