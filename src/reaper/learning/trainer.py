"""Practice: playing and updating in turn, one seam after another, keeping the weights of the best window.

Short-term learning, distillation and pseudo-rehearsal without a second memory all practise in this way; they differ in
the loss of an update and in what makes a window the best.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from reaper.compute.compilation import unchecked
from reaper.compute.cuda_graph import recorded
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, Update
from reaper.context import Context
from reaper.learning.actor import Player, exploration
from reaper.learning.evaluation.evaluator import new_examiner
from reaper.memory.replay import Replay
from reaper.storage.checkpoints import Parts, check_finite
from reaper.tasks.task import Task

LOOK_EVERY = 4_096  # observed frames between two looks at the loss, at most: on a GPU, looking means waiting
DRAWN_FIRST = 4  # updates whose batches a GPU draws before it begins; the others are drawn meanwhile
LOOKS = 100  # at the loss of a short practice, so that its curves have a shape


class BestWindow:
    """The weights at the end of the best window of training, by score (highest) or by loss (lowest)."""

    def __init__(self, weights: FlatWeights, frames: int, by_score: bool) -> None:
        self.weights, self.frames, self.by_score = weights, frames, by_score
        self.best: torch.Tensor | None = None
        self.value = float("-inf")
        self.scores: list[float] = []
        self.loss_sum, self.losses = torch.zeros((), device=weights.values.device), 0

    def close(self) -> None:
        """Ends a window; one in which nothing was measured is passed over."""
        values = self.scores if self.by_score else [-float(self.loss_sum) / self.losses] if self.losses else []
        if values and (value := sum(values) / len(values)) > self.value:
            self.value, self.best = value, self.weights.values.clone()
        self.scores, self.losses = [], 0
        self.loss_sum.zero_()

    def put_back(self) -> None:
        """Puts the best weights back into the network; without a measured window the last ones stay."""
        if self.best is not None:
            self.weights.values.copy_(self.best)

    def state(self) -> dict[str, Any]:
        numbers = {"value": self.value, "scores": list(self.scores), "losses": self.losses}
        return {**numbers, "best": self.best, "loss_sum": self.loss_sum}

    def restore(self, state: dict[str, Any]) -> None:
        self.value, self.scores, self.losses = state["value"], state["scores"], state["losses"]
        self.best = None if state["best"] is None else state["best"].to(self.weights.values.device)
        self.loss_sum.copy_(state["loss_sum"])


class Practice:
    """A phase of training that can be left after any step and taken up again."""

    def __init__(
        self,
        context: Context,
        weights: FlatWeights,
        update: Update,
        best: BestWindow,
        draw: Callable[[int], list[Batch]],
        drawing: Parts,
        player: Player | None = None,
        replay: Replay | None = None,
        after_frames: Callable[[int, int], None] = lambda before, now: None,
        constants: Mapping[str, float | None] | None = None,
    ) -> None:
        self.context, self.weights, self.update, self.best = context, weights, update, best
        self.constants = constants or {}  # told with every measurement
        self.draw, self.drawing, self.after_frames = draw, drawing, after_frames
        self.player, self.replay = player, replay
        self.records = context.device.type == "cuda"
        self.recordings: dict[int | str, Callable[[], None]] = {}
        self.side = torch.cuda.Stream() if self.records else None
        self.actor = self._actor()
        self.randomness = context.dice("acting")
        self.observed_frames = 0
        self.seam = 0  # the observed frames at the last seam whose tests are done, or handed to the examiner
        self.examiner = new_examiner(context, weights.network)
        self.learning = player is None
        self.unfiled: tuple[int, int] | None = None  # observed frames before and after the last step
        self.uncounted = False
        self.name, self.look_every = "", LOOK_EVERY
        self.told, self.told_loss, self.told_at = 0, 0.0, 0  # of the window's losses: how many, their sum, when
        self.new_scores: list[float] = []  # since then

    def _actor(self) -> FlatWeights:
        """Whose actions are taken. On a GPU, a copy of the weights from before the last step's updates: so the next
        actions do not wait for updates, which take nearly as long as the step."""
        if self.player is None or not self.records:
            return self.weights
        self.player.part()
        return FlatWeights(self.context.q_network(self.weights.network.state_dict()))

    def run(self, name: str, total_frames: int, tasks: Sequence[Task]) -> None:
        """Trains to the end, with a test of every task at every seam. To be called with the examiner as a context, and
        its rows to be asked for as late as possible: it may still have some to come."""
        self.name, self.look_every = name, min(LOOK_EVERY, max(1, total_frames // LOOKS))
        self.context.keeper.keep("practice", self)
        progress, seen = self.context.progress, self.observed_frames
        progress.begin(name, total_frames, done=seen, curves=("training", "evaluation"))
        every = self.context.settings.evaluation.every
        while self.seam < total_frames:
            self.run_to(min((self.seam // every + 1) * every, total_frames))
            self.examiner.examine(tasks, self.observed_frames)
            self.seam = self.observed_frames
            self.examiner.keep_up()
            progress.per_second(self.observed_frames)  # tests are no training: the clock starts anew

    def run_to(self, seam_end: int) -> None:
        """From one seam to the next. The games are started anew at a seam, in interrupted and uninterrupted runs
        alike, so that no game has to be brought back from further than that."""
        if self.player and self.replay and self.observed_frames == self.seam:
            self.replay.break_off()
            self.player.begin(self.context.derive_seed("games", self.observed_frames))
        while self.observed_frames < seam_end:
            self.step()
            self.context.keeper.reached(self.context.settings.play.games)
        self.settle()
        if self.player:
            self.player.rest()
        self.look()

    def step(self) -> None:
        """One observed frame of every game, and the updates that are due for it. Emulators stand still from the arrival
        of their frames until they have new actions, and a GPU from then until it has its updates, so whatever can
        follow does."""
        play, before = self.context.settings.play, self.observed_frames
        now = before + play.games
        if self.player and self.replay:
            self.player.send(self.actor.network, exploration(before, play), self.randomness)
            self.file()  # the step before this one
            self.learning = self.learning or (before >= play.replay_start and self.replay.ready())
            if self.actor is not self.weights:
                self.actor.copy_from(self.weights)
            self.player.clear()
        updates = now // play.frames_per_update - before // play.frames_per_update
        if self.learning and updates:  # while the emulators run
            self.learn(updates)
        self.count()
        if self.player:
            self.player.draw(exploration(now, play), self.randomness)
            self.player.receive()
        self.observed_frames, self.unfiled = now, (before, now)
        if not self.player:
            self.settle()

    def settle(self) -> None:
        """All that is left to do for the last step."""
        self.file()
        self.count()

    def file(self) -> None:
        """What has to be done for the last step before the weights change: the replay, the target network, windows."""
        if self.unfiled is None:
            return
        (before, now), self.unfiled, self.uncounted = self.unfiled, None, True
        if self.player and self.replay:
            self.player.settle()
            self.put_in(self.replay, self.player)
        self.after_frames(before, now)
        ends_window = crossed(self.best.frames, before, now)
        if crossed(self.look_every, before, now) or ends_window:
            self.count()
            self.look()
        if ends_window:
            self.best.close()
            self.told, self.told_loss = 0, 0.0

    def count(self) -> None:
        """The scores of the last step, and the work done."""
        if not self.uncounted:
            return
        self.uncounted, scores = False, self.player.take_scores() if self.player else []
        self.best.scores += scores
        self.new_scores += scores
        frames = self.context.settings.play.games
        self.context.progress.advance(frames, sum(scores) / len(scores) if scores else None)

    def learn(self, updates: int) -> None:
        """Makes so many updates: one after the other, or as one recording."""

        def work() -> None:
            with contextlib.ExitStack() as after_first:
                for number, batch in enumerate(self.drawn(updates)):
                    if number == 1 and self.context.compiles and not self.records:
                        after_first.enter_context(unchecked())
                    self.best.loss_sum += self.update(*batch)

        if self.records and updates not in self.recordings:
            changes = Parts(weights=self.weights, optimiser=self.update.optimiser, best=self.best, drawing=self.drawing)
            self.recordings[updates] = recorded(work, changes)
        self.recordings.get(updates, work)()
        self.best.losses += updates

    def drawn(self, updates: int) -> Iterator[Batch]:
        """Their batches. On a GPU most of them are drawn, and answered by target network or teacher, while the first
        updates are made: nothing of that depends on the weights."""
        if self.side is None or updates <= DRAWN_FIRST:
            yield from self.draw(updates)
            return
        first = self.draw(DRAWN_FIRST)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            rest = self.draw(updates - DRAWN_FIRST)
        yield from first
        torch.cuda.current_stream().wait_stream(self.side)
        yield from rest

    def put_in(self, replay: Replay, player: Player) -> None:
        """Puts the settled step into the replay."""

        def work() -> None:
            replay.add(*player.moment())

        if self.records and "file" not in self.recordings:
            self.recordings["file"] = recorded(work)
        self.recordings.get("file", work)()

    def look(self) -> None:
        """Stops when the numbers have gone wrong, and tells how they are."""
        self.examiner.collect()
        total, losses = float(self.best.loss_sum) if self.best.losses else 0.0, self.best.losses
        check_finite(total, self.name, f"{self.observed_frames:,} observed frames")
        if self.observed_frames > self.told_at:
            loss = (total - self.told_loss) / (losses - self.told) if losses > self.told else None
            self.tell(loss)
            self.told, self.told_loss, self.told_at = losses, total, self.observed_frames

    def tell(self, loss: float | None) -> None:
        """Points of the training curves: means since the last ones."""
        seen, progress, scores = self.observed_frames, self.context.progress, self.new_scores
        score = sum(scores) / len(scores) if scores else None
        epsilon = exploration(seen, self.context.settings.play) if self.player else None
        values = {"score": score, "loss": loss, "epsilon": epsilon, **self.constants}
        progress.measure("training", seen, {**values, "frames_per_second": progress.per_second(seen)})
        self.new_scores = []

    def _parts(self) -> Parts:
        parts = Parts(weights=self.weights, optimiser=self.update.optimiser, best=self.best, acting=self.randomness)
        if self.player and self.replay:
            parts["player"], parts["replay"] = self.player, self.replay
        if self.actor is not self.weights:
            parts["actor"] = self.actor
        return parts

    def state(self) -> dict[str, Any]:
        self.settle()
        counters = {name: getattr(self, name) for name in ("observed_frames", "seam", "learning")}
        return {**counters, **self.examiner.state(), **self._parts().state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.observed_frames, self.seam, self.learning = state["observed_frames"], state["seam"], state["learning"]
        self._parts().restore({"actor": state["weights"], **state})  # older checkpoints have no actor
        self.examiner.restore(state)
        self.told, self.told_loss = self.best.losses, float(self.best.loss_sum)
        self.told_at = self.observed_frames - 1  # a seam's last look may be still to come


def crossed(interval: int, before: int, now: int) -> bool:
    """Whether a multiple of the interval lies in (before, now]."""
    return now // interval > before // interval
