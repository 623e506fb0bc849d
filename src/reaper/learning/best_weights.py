"""The weights at the end of the best window of training."""

from __future__ import annotations

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.state import State


class BestWeights:
    """Training is divided into windows. Keeps the weights at the end of the one with the highest mean episode return,
    or with the lowest mean loss."""

    def __init__(self, weights: FlatWeights, window: int, by_score: bool) -> None:
        self.weights, self.window, self.by_score = weights, window, by_score
        self.best: torch.Tensor | None = None
        self.value = float("-inf")
        self.scores: list[float] = []  # of the current window
        self.loss_sum, self.losses = torch.zeros((), device=weights.values.device), 0  # of the current window

    def end_window(self) -> None:
        """Ends a window; one in which nothing was measured is ignored."""
        values = self.scores if self.by_score else [-float(self.loss_sum) / self.losses] if self.losses else []
        if values and (value := sum(values) / len(values)) > self.value:
            self.value, self.best = value, self.weights.values.clone()
        self.scores, self.losses = [], 0
        self.loss_sum.zero_()

    def load(self) -> None:
        """Loads the best weights into the network; without a measured window it keeps the last ones."""
        if self.best is not None:
            self.weights.values.copy_(self.best)

    def state(self) -> State:
        numbers = {"value": self.value, "scores": list(self.scores), "losses": self.losses}
        return {**numbers, "best": self.best, "loss_sum": self.loss_sum}

    def restore(self, state: State) -> None:
        self.value, self.scores, self.losses = state["value"], state["scores"], state["losses"]
        self.best = None if state["best"] is None else state["best"].to(self.weights.values.device)
        self.loss_sum.copy_(state["loss_sum"])
