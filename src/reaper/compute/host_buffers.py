"""The way of frames and outcomes from the games to the learner's device."""

from __future__ import annotations

import numpy as np
import torch

from reaper.tasks.observation import ObservationSpec

SEEN, OUTCOME = 0, 1


class Inbox:
    """Where a step's arrays arrive: at once what the next actions depend on, later what was done and what came of it.
    On their way to a GPU they pass through pinned memory, so that nobody waits for a copy; a player waits for the GPU
    before they are overwritten."""

    def __init__(self, games: int, frame: ObservationSpec, device: torch.device) -> None:
        pinned = device.type == "cuda"
        seen = torch.zeros(games * (frame.num_bytes + 1), dtype=torch.uint8, pin_memory=pinned)
        outcome = torch.zeros((4, games), pin_memory=pinned)  # as one array: every copy costs a call
        self.host = (seen, outcome)
        self.there = (seen.to(device), outcome.to(device))  # the same tensors where the device is the CPU
        shape, end = (games, *frame.shape), games * frame.num_bytes
        self._frames, self._resets = seen.numpy()[:end].view(frame.dtype).reshape(shape), seen.numpy()[end:]
        self._outcome = outcome.numpy()
        self.frames = self.there[SEEN][:end].view(frame.torch_dtype).view(shape)
        self.resets = self.there[SEEN][end:]
        self.outcome = self.there[OUTCOME]

    def put_seen(self, frames: np.ndarray, autoreset: np.ndarray) -> None:
        self._frames[...] = frames
        self._resets[...] = autoreset

    def put_outcome(self, *arrays: np.ndarray) -> None:
        """Actions, rewards, terminals and cut-offs."""
        for row, array in zip(self._outcome, arrays, strict=True):
            row[...] = array

    def hand_over(self, part: int) -> None:
        """Only tensors: it can be part of a recording."""
        if self.there[part] is not self.host[part]:
            self.there[part].copy_(self.host[part], non_blocking=True)
