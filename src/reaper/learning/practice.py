"""Practice: playing and updating in turn, one seam after another, keeping the weights of the best window.

Short-term learning, distillation and pseudo-rehearsal without a second memory all practise in this way; they differ in
the loss of an update and in what makes a window the best.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from reaper.learning.acting import Player, exploration
from reaper.learning.context import Context
from reaper.learning.optimiser import FlatWeights
from reaper.learning.update import Update
from reaper.memory.replay import Replay

Row = dict[str, object]  # one evaluation: task, observed frames, scores


class BestWindow:
    """The weights at the end of the best window of training, by score (highest) or by loss (lowest)."""

    def __init__(self, weights: FlatWeights, frames: int, by_score: bool) -> None:
        self.weights, self.frames, self.by_score = weights, frames, by_score
        self.best: torch.Tensor | None = None
        self.value = float("-inf")
        self.scores: list[float] = []
        self.loss_sum, self.losses = torch.zeros((), device=weights.values.device), 0

    def add_loss(self, loss: torch.Tensor) -> None:
        self.loss_sum += loss
        self.losses += 1

    def close(self) -> None:
        """Ends a window; one in which nothing was measured is passed over."""
        values = self.scores if self.by_score else [-float(self.loss_sum) / self.losses] if self.losses else []
        if values and (value := sum(values) / len(values)) > self.value:
            self.value, self.best = value, self.weights.values.clone()
        self.scores, self.losses = [], 0
        self.loss_sum.zero_()

    def restore(self) -> None:
        """Puts the best weights back into the network; without a measured window the last ones stay."""
        if self.best is not None:
            self.weights.values.copy_(self.best)


class Practice:
    """A phase of training that can be left and taken up again at every seam."""

    def __init__(
        self,
        context: Context,
        weights: FlatWeights,
        update: Update,
        best: BestWindow,
        prepare: Callable[[int], None],
        player: Player | None = None,
        replay: Replay | None = None,
        after_frames: Callable[[int, int], None] = lambda before, now: None,
    ) -> None:
        self.context, self.weights, self.update, self.best = context, weights, update, best
        self.prepare, self.player, self.replay, self.after_frames = prepare, player, replay, after_frames
        self.randomness = context.stream("acting")
        self.observed_frames = 0
        self.learning = player is None

    def run(self, total_frames: int, evaluate: Callable[[int], list[Row]]) -> list[Row]:
        """Trains to the end and returns the rows of all evaluations, one set a seam."""
        rows: list[Row] = []
        every = self.context.settings.evaluation.every
        while self.observed_frames < total_frames:
            seam_end = min((self.observed_frames // every + 1) * every, total_frames)
            self.run_to(seam_end)
            rows += evaluate(self.observed_frames)
        return rows

    def run_to(self, seam_end: int) -> None:
        """From one seam to the next. The games are started anew at a seam, in interrupted and uninterrupted runs
        alike, since emulators cannot be frozen in the middle of one."""
        if self.player and self.replay:
            self.replay.break_off()
            self.player.begin(self.context.derive_seed("games", self.observed_frames))
        while self.observed_frames < seam_end:
            self.step()

    def step(self) -> None:
        """One observed frame of every game, and the updates that are due for it."""
        play, before = self.context.settings.play, self.observed_frames
        now = before + play.games
        if self.player and self.replay:
            self.player.send(self.weights.network, exploration(before, play), self.randomness)
            self.learning = self.learning or (before >= play.replay_start and self.replay.ready())
        updates = now // play.frames_per_update - before // play.frames_per_update
        if self.learning and updates:  # while the emulators run
            self.prepare(updates)
            for _ in range(updates):
                self.best.add_loss(self.update())
        if self.player and self.replay:
            self.replay.add(*self.player.receive())
            self.best.scores += (scores := self.player.take_scores())
            self.context.progress.advance(play.games, sum(scores) / len(scores) if scores else None)
        else:
            self.context.progress.advance(play.games)
        self.observed_frames = now
        self.after_frames(before, now)
        if crossed(self.best.frames, before, now):
            self.best.close()


def crossed(interval: int, before: int, now: int) -> bool:
    """Whether a multiple of the interval lies in (before, now]."""
    return now // interval > before // interval
