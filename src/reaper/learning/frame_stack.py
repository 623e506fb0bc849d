"""The states of all environments: stacks of their most recent observations, on the learner's device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from reaper.compute.host_buffers import OBSERVATIONS, HostBuffers
from reaper.tasks.task import VectorTask

Push = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]


def push_frames(stack: torch.Tensor, ages: torch.Tensor, newest: torch.Tensor, resets: torch.Tensor) -> None:
    """Pushes the newest observations onto the stacks, in place; a new episode is filled with its first observation.

    stack (num_envs, frame_stack * channels, ...), newest (num_envs, channels, ...), ages and resets (num_envs,).
    """
    begins, channels = resets != 0, newest.shape[1]
    rolled = torch.cat([stack[:, channels:], newest], dim=1)
    filled = newest[:, None].expand(-1, stack.shape[1] // channels, *newest.shape[1:]).reshape(stack.shape)
    stack.copy_(torch.where(begins.view(-1, *[1] * (stack.ndim - 1)), filled, rolled))
    ages.copy_(torch.where(begins, 0, ages + 1))


class FrameStack:
    """Stacks the observations that arrive in the host buffers."""

    def __init__(self, envs: VectorTask, frame_stack: int, device: torch.device, push: Push = push_frames) -> None:
        frame, state = envs.observation, envs.observation.stacked(frame_stack)
        self.frame_stack, self._push = frame_stack, push
        self.buffers = HostBuffers(envs.num_envs, frame, device)
        self.states = torch.zeros((envs.num_envs, *state.shape), dtype=state.torch_dtype, device=device)
        self.ages = torch.zeros(envs.num_envs, dtype=torch.int64, device=device)  # agent steps since the reset
        # The newest observations and their ages when the last actions were chosen: what the replay stores.
        self.previous_frames = torch.zeros((envs.num_envs, *frame.shape), dtype=frame.torch_dtype, device=device)
        self.previous_ages = torch.zeros_like(self.ages)

    def reset(self, first: torch.Tensor) -> None:
        """Fills every stack with the first observation of its episode."""
        self.states.copy_(first.repeat(1, self.frame_stack, *[1] * (first.ndim - 2)))
        self.ages.zero_()

    def push(self) -> None:
        """Pushes the observations in the host buffers. Tensor operations only, all in place, so it can be captured."""
        self.buffers.upload(OBSERVATIONS)
        self.previous_frames.copy_(self.states[:, -self.previous_frames.shape[1] :])
        self.previous_ages.copy_(self.ages)
        self._push(self.states, self.ages, self.buffers.frames, self.buffers.resets)
