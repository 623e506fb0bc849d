"""Returns of training episodes."""

from __future__ import annotations

import numpy as np

from reaper.tasks.task import Step


class EpisodeStatistics:
    """Sums unclipped rewards per environment and collects the returns of finished episodes."""

    def __init__(self, num_envs: int) -> None:
        self.running = np.zeros(num_envs)  # returns of the unfinished episodes
        self._finished: list[float] = []

    def reset(self) -> None:
        """Drops unfinished episodes."""
        self.running[:] = 0

    def add(self, step: Step) -> None:
        self.running += step.rewards
        for env in np.flatnonzero(step.done):
            self._finished.append(float(self.running[env]))
            self.running[env] = 0

    def take(self) -> list[float]:
        """The returns of the episodes that finished since the last call."""
        returns, self._finished = self._finished, []
        return returns
