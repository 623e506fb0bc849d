"""Pinned host buffers between the environments and the learner's device."""

from __future__ import annotations

import numpy as np
import torch

from reaper.tasks.observation import ObservationSpec

OBSERVATIONS, OUTCOMES = 0, 1


class HostBuffers:
    """Receives one step's arrays: observations first; actions, rewards and dones later.

    On their way to a GPU the arrays pass through pinned memory, so that copies are asynchronous. The actor synchronises
    with the GPU before a buffer is overwritten. On a CPU, host and device tensors are the same.
    """

    def __init__(self, num_envs: int, observation: ObservationSpec, device: torch.device) -> None:
        pinned = device.type == "cuda"
        shape, end = (num_envs, *observation.shape), num_envs * observation.num_bytes
        observations = torch.zeros(end + num_envs, dtype=torch.uint8, pin_memory=pinned)  # frames' bytes, then resets
        outcomes = torch.zeros((4, num_envs), pin_memory=pinned)  # one array, because every copy costs a call
        self._host = (observations, outcomes)
        self._device = (observations.to(device), outcomes.to(device))
        host_bytes = observations.numpy()
        self._host_frames, self._host_resets = host_bytes[:end].view(observation.dtype).reshape(shape), host_bytes[end:]
        self._host_outcomes = outcomes.numpy()
        self.frames = self._device[OBSERVATIONS][:end].view(observation.torch_dtype).view(shape)
        self.resets = self._device[OBSERVATIONS][end:]  # (num_envs,) 1 where the step was an autoreset
        self.outcomes = self._device[OUTCOMES]  # (4, num_envs): actions, rewards, terminals, truncated

    def write_observations(self, frames: np.ndarray, autoreset: np.ndarray) -> None:
        self._host_frames[...] = frames
        self._host_resets[...] = autoreset

    def write_outcomes(self, *arrays: np.ndarray) -> None:
        """Actions, rewards, terminals and truncations."""
        for row, array in zip(self._host_outcomes, arrays, strict=True):
            row[...] = array

    def upload(self, part: int) -> None:
        """Copies OBSERVATIONS or OUTCOMES to the device. Tensor operations only, so it can be captured."""
        if self._device[part] is not self._host[part]:
            self._device[part].copy_(self._host[part], non_blocking=True)
