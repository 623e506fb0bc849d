"""Practice: playing and updating in turn, one seam after another, keeping the weights of the best window.

Short-term learning, distillation and pseudo-rehearsal without a second memory all practise in this way; they differ in
the loss of an update and in what makes a window the best.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from reaper.compute.compilation import skip_guards
from reaper.compute.cuda_graph import capture_graph
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Batch, Update
from reaper.context import Context
from reaper.learning.actor import Actor, exploration
from reaper.learning.evaluation.evaluator import new_evaluator
from reaper.memory.replay import Replay
from reaper.state import Parts
from reaper.storage.checkpoints import check_finite
from reaper.tasks.task import Task

LOOK_EVERY = 4_096  # agent steps between two looks at the loss, at most: on a GPU, looking means waiting
DRAWN_FIRST = 4  # updates whose batches a GPU draws before it begins; the others are drawn meanwhile
LOOKS = 100  # at the loss of a short practice, so that its curves have a shape


class BestWeights:
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


class Trainer:
    """A phase of training that can be left after any step and taken up again."""

    def __init__(
        self,
        context: Context,
        weights: FlatWeights,
        update: Update,
        best: BestWeights,
        draw: Callable[[int], list[Batch]],
        drawing: Parts,
        actor: Actor | None = None,
        replay: Replay | None = None,
        after_frames: Callable[[int, int], None] = lambda before, now: None,
        constants: Mapping[str, float | None] | None = None,
    ) -> None:
        self.context, self.weights, self.update, self.best = context, weights, update, best
        self.constants = constants or {}  # told with every measurement
        self.draw, self.drawing, self.after_frames = draw, drawing, after_frames
        self.actor, self.replay = actor, replay
        self.records = context.device.type == "cuda"
        self.recordings: dict[int | str, Callable[[], None]] = {}
        self.side = torch.cuda.Stream() if self.records else None
        self.acting_weights = self._acting_weights()
        self.rng = context.cpu_rng("acting")
        self.agent_steps = 0
        self.seam = 0  # the agent steps at the last seam whose tests are done, or handed to the examiner
        self.evaluator = new_evaluator(context, weights.network)
        self.learning = actor is None
        self.unfiled: tuple[int, int] | None = None  # agent steps before and after the last step
        self.uncounted = False
        self.name, self.look_every = "", LOOK_EVERY
        self.told, self.told_loss, self.told_at = 0, 0.0, 0  # of the window's losses: how many, their sum, when
        self.new_scores: list[float] = []  # since then

    def _acting_weights(self) -> FlatWeights:
        """Whose actions are taken. On a GPU, a copy of the weights from before the last step's updates: so the next
        actions do not wait for updates, which take nearly as long as the step."""
        if self.actor is None or not self.records:
            return self.weights
        self.actor.part()
        return FlatWeights(self.context.q_network(self.weights.network.state_dict()))

    def run(self, name: str, total_frames: int, tasks: Sequence[Task]) -> None:
        """Trains to the end, with a test of every task at every seam. To be called with the examiner as a context, and
        its rows to be asked for as late as possible: it may still have some to come."""
        self.name, self.look_every = name, min(LOOK_EVERY, max(1, total_frames // LOOKS))
        self.context.checkpointer.register("trainer", self)
        progress, seen = self.context.progress, self.agent_steps
        progress.begin(name, total_frames, done=seen, curves=("training", "evaluation"))
        every = self.context.settings.evaluation.interval
        while self.seam < total_frames:
            self.run_to(min((self.seam // every + 1) * every, total_frames))
            self.evaluator.examine(tasks, self.agent_steps)
            self.seam = self.agent_steps
            self.evaluator.keep_up()
            progress.per_second(self.agent_steps)  # tests are no training: the clock starts anew

    def run_to(self, seam_end: int) -> None:
        """From one seam to the next. The games are started anew at a seam, in interrupted and uninterrupted runs
        alike, so that no game has to be brought back from further than that."""
        if self.actor and self.replay and self.agent_steps == self.seam:
            self.replay.truncate()
            self.actor.begin(self.context.derive_seed("games", self.agent_steps))
        while self.agent_steps < seam_end:
            self.step()
            self.context.checkpointer.maybe_save(self.context.settings.training.num_envs)
        self.settle()
        if self.actor:
            self.actor.rest()
        self.look()

    def step(self) -> None:
        """One agent step of every game, and the updates that are due for it. Emulators stand still from the arrival
        of their frames until they have new actions, and a GPU from then until it has its updates, so whatever can
        follow does."""
        training, before = self.context.settings.training, self.agent_steps
        now = before + training.num_envs
        if self.actor and self.replay:
            self.actor.send(self.acting_weights.network, exploration(before, training), self.rng)
            self.file()  # the step before this one
            self.learning = self.learning or (before >= training.learning_starts and self.replay.ready())
            if self.acting_weights is not self.weights:
                self.acting_weights.copy_from(self.weights)
            self.actor.clear()
        updates = now // training.steps_per_update - before // training.steps_per_update
        if self.learning and updates:  # while the emulators run
            self.learn(updates)
        self.count()
        if self.actor:
            self.actor.draw(exploration(now, training), self.rng)
            self.actor.receive()
        self.agent_steps, self.unfiled = now, (before, now)
        if not self.actor:
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
        if self.actor and self.replay:
            self.actor.settle()
            self.put_in(self.replay, self.actor)
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
        self.uncounted, scores = False, self.actor.take_scores() if self.actor else []
        self.best.scores += scores
        self.new_scores += scores
        frames = self.context.settings.training.num_envs
        self.context.progress.advance(frames, sum(scores) / len(scores) if scores else None)

    def learn(self, updates: int) -> None:
        """Makes so many updates: one after the other, or as one recording."""

        def work() -> None:
            with contextlib.ExitStack() as after_first:
                for number, batch in enumerate(self.drawn(updates)):
                    if number == 1 and self.context.compiles and not self.records:
                        after_first.enter_context(skip_guards())
                    self.best.loss_sum += self.update(*batch)

        if self.records and updates not in self.recordings:
            changes = Parts(weights=self.weights, optimiser=self.update.optimiser, best=self.best, drawing=self.drawing)
            self.recordings[updates] = capture_graph(work, changes)
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

    def put_in(self, replay: Replay, actor: Actor) -> None:
        """Puts the settled step into the replay."""

        def work() -> None:
            replay.add(actor.moment())

        if self.records and "file" not in self.recordings:
            self.recordings["file"] = capture_graph(work)
        self.recordings.get("file", work)()

    def look(self) -> None:
        """Stops when the numbers have gone wrong, and tells how they are."""
        self.evaluator.collect()
        total, losses = float(self.best.loss_sum) if self.best.losses else 0.0, self.best.losses
        check_finite(total, self.name, f"{self.agent_steps:,} agent steps")
        if self.agent_steps > self.told_at:
            loss = (total - self.told_loss) / (losses - self.told) if losses > self.told else None
            self.tell(loss)
            self.told, self.told_loss, self.told_at = losses, total, self.agent_steps

    def tell(self, loss: float | None) -> None:
        """Points of the training curves: means since the last ones."""
        seen, progress, scores = self.agent_steps, self.context.progress, self.new_scores
        score = sum(scores) / len(scores) if scores else None
        epsilon = exploration(seen, self.context.settings.training) if self.actor else None
        values = {"score": score, "loss": loss, "epsilon": epsilon, **self.constants}
        progress.log_curves("training", seen, {**values, "steps_per_second": progress.per_second(seen)})
        self.new_scores = []

    def _parts(self) -> Parts:
        parts = Parts(weights=self.weights, optimiser=self.update.optimiser, best=self.best, acting=self.rng)
        if self.actor and self.replay:
            parts["actor"], parts["replay"] = self.actor, self.replay
        if self.acting_weights is not self.weights:
            parts["acting_weights"] = self.acting_weights
        return parts

    def state(self) -> dict[str, Any]:
        self.settle()
        counters = {name: getattr(self, name) for name in ("agent_steps", "seam", "learning")}
        return {**counters, **self.evaluator.state(), **self._parts().state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.agent_steps, self.seam, self.learning = state["agent_steps"], state["seam"], state["learning"]
        self._parts().restore({"acting_weights": state["weights"], **state})  # older checkpoints have no actor
        self.evaluator.restore(state)
        self.told, self.told_loss = self.best.losses, float(self.best.loss_sum)
        self.told_at = self.agent_steps - 1  # a seam's last look may be still to come


def crossed(interval: int, before: int, now: int) -> bool:
    """Whether a multiple of the interval lies in (before, now]."""
    return now // interval > before // interval
