"""The weights at the end of the best window of training."""

from __future__ import annotations

from typing import Any

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.state import State


class BestWeights:
    """Training is divided into windows. Keeps the weights at the end of the one with the highest mean episode return,
    or with the lowest mean loss.

    A mean return needs episodes: a window in which fewer than `min_episodes` finished does not count yet, but grows by
    one more length, until they did.

    With an `average`, a running one with this decay, it is kept in place of the weights. Single updates then hardly
    change what is kept: where actions differ little in value, each update makes other actions the best ones.
    """

    def __init__(
        self, weights: FlatWeights, window: int, *, by_score: bool, min_episodes: int = 1, average: float = 0.0
    ) -> None:
        self.weights, self.window, self.by_score, self.min_episodes = weights, window, by_score, min_episodes
        self.decay = average
        self.average = weights.values.clone() if average else None
        self.best: torch.Tensor | None = None
        self.value = float("-inf")
        self.windows = 0  # that counted
        self.chosen: int | None = None  # the best of them, counted from one; None: not known
        self.scores: list[float] = []  # of the current window
        self.loss_sum, self.losses = torch.zeros((), device=weights.values.device), 0  # since its last length ended

    def follow(self) -> None:
        """Brings the average up to date after updates."""
        if self.average is not None:
            self.average.lerp_(self.weights.values, 1 - self.decay)

    def end_window(self) -> None:
        """Ends a window, or lets it grow."""
        if self.by_score and len(self.scores) >= self.min_episodes:
            self._count(sum(self.scores) / len(self.scores))
            self.scores = []
        elif not self.by_score:
            self.scores = []
            if self.losses:
                self._count(-float(self.loss_sum) / self.losses)
        self.losses = 0
        self.loss_sum.zero_()  # also in a window that grows: a sum of too many losses would lose its last digits

    def _count(self, value: float) -> None:
        self.windows += 1
        if value > self.value:
            self.value, self.best, self.chosen = value, self._current().clone(), self.windows

    def _current(self) -> torch.Tensor:
        return self.weights.values if self.average is None else self.average

    def load(self) -> None:
        """Loads the best weights into the network; if no window counted, the last ones."""
        self.weights.values.copy_(self._current() if self.best is None else self.best)

    def record(self) -> dict[str, Any]:
        """What a stage writes down about the choice of its weights. No window: they are the last ones."""
        value = None if self.best is None else self.value if self.by_score else -self.value
        by = "score" if self.by_score else "loss"
        return {"by": by, "windows": self.windows, "chosen": self.chosen, "value": value}

    def state(self) -> State:
        numbers = {"value": self.value, "windows": self.windows, "scores": list(self.scores), "losses": self.losses}
        average = {} if self.average is None else {"average": self.average}
        return {**numbers, "chosen": self.chosen, "best": self.best, "loss_sum": self.loss_sum, **average}

    def restore(self, state: State) -> None:
        self.value, self.scores, self.losses = state["value"], state["scores"], state["losses"]
        self.best = None if state["best"] is None else state["best"].to(self.weights.values.device)
        self.windows = state.get("windows", int(self.best is not None))  # until 0.2 they were not counted
        self.chosen = state.get("chosen")  # checkpoints of earlier versions do not state it
        self.loss_sum.copy_(state["loss_sum"])
        if self.average is not None:
            self.average.copy_(state["average"])
