"""The curves of a training phase: points at regular intervals, means since the last point."""

from __future__ import annotations

from collections.abc import Mapping

from reaper.learning.best_weights import BestWeights
from reaper.progress import Progress
from reaper.storage.checkpoints import check_finite

MAX_INTERVAL = 4_096  # agent steps between two points; on a GPU, reading the loss means waiting for it
MIN_POINTS = 100  # of a short phase


class TrainingLog:
    """Logs loss and episode returns, and stops training when the loss is not finite."""

    def __init__(self, progress: Progress, best: BestWeights, constants: Mapping[str, float | None]) -> None:
        self.progress, self.best = progress, best
        self.constants = constants  # logged with every point
        self.phase, self.interval = "", MAX_INTERVAL
        self._returns: list[float] = []  # of the episodes since the last point
        self._losses, self._loss_sum = 0, 0.0  # of the current window, at the last point
        self._logged_at = 0  # agent steps

    def begin(self, phase: str, total_steps: int) -> None:
        self.phase, self.interval = phase, min(MAX_INTERVAL, max(1, total_steps // MIN_POINTS))

    def add_returns(self, returns: list[float]) -> None:
        self._returns += returns

    def log(self, agent_steps: int, epsilon: float | None) -> None:
        """Logs a point, unless there is one for this step."""
        losses = self.best.losses
        loss_sum = float(self.best.loss_sum) if losses else 0.0
        check_finite(loss_sum, self.phase, f"{agent_steps:,} agent steps")
        if agent_steps <= self._logged_at:
            return
        loss = (loss_sum - self._loss_sum) / (losses - self._losses) if losses > self._losses else None
        score = sum(self._returns) / len(self._returns) if self._returns else None
        values = {"score": score, "loss": loss, "epsilon": epsilon, **self.constants}
        speed = {"steps_per_second": self.progress.per_second(agent_steps)}
        self.progress.log_curves("training", agent_steps, {**values, **speed})
        self._returns, self._losses, self._loss_sum, self._logged_at = [], losses, loss_sum, agent_steps

    def start_window(self) -> None:
        """The window of the best weights, and with it the sum of losses, starts again."""
        self._losses, self._loss_sum = 0, 0.0

    def resume(self, agent_steps: int) -> None:
        """Continues after a restore; the point of the very step that was saved may be missing."""
        self._losses, self._loss_sum = self.best.losses, float(self.best.loss_sum)
        self._logged_at = agent_steps - 1
