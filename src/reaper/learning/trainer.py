"""The training loop: act, store, learn, evaluate.

Short-term learning, consolidation and students all train in this way; they differ in the loss, in where batches come
from and in which weights are the best. Environments are idle from the arrival of their observations until they have new
actions, and a GPU from there until it has its updates. So only what the next actions depend on happens in between, and
the effects of a step (replay, target network, statistics) follow during the next step. One step of the loop:

On a CPU, where emulators and updates share the cores:

    environments     |-------------- step t --------------|
    main thread   act(t)  store(t-1)  learn  count(t-1)  observe(t)  act(t+1) ...

On a GPU, where the actor has a stream of its own and acts with the weights from before the last updates:

    environments     |------------------------ step t ------------------------|    |---- step t+1
    main thread   act(t)  store(t-1)  learn  count(t-1)  observe(t): enqueue, wait  act(t+1)
    learner stream         [add t-1][copy weights][ updates ..................... ]
    actor stream                                  (gate closed until step t ends)[push, choose]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reaper.compute.optimiser import FlatWeights, annealed_rate
from reaper.compute.update import Loss
from reaper.context import Context
from reaper.learning.actor import Outcome
from reaper.learning.best_weights import BestWeights
from reaper.learning.evaluation.evaluator import new_evaluator
from reaper.learning.experience import Experience
from reaper.learning.exploration import epsilon_at
from reaper.learning.learner import BatchSource, Learner
from reaper.learning.training_log import TrainingLog
from reaper.networks.q_network import QNetwork
from reaper.state import Parts, State
from reaper.tasks.task import Task


@dataclass
class PendingStep:
    """The last agent step of all environments, as long as some of its effects are outstanding."""

    before: int  # agent steps before it
    after: int
    outcome: Outcome | None  # None: training without environments
    stored: bool = False


class Trainer:
    """A phase of training that can be saved after any step and resumed."""

    def __init__(
        self,
        context: Context,
        weights: FlatWeights[QNetwork],
        *,
        loss: Loss,
        batches: BatchSource,
        best: BestWeights,
        experience: Experience | None = None,
        after_steps: Callable[[int, int], None] = lambda before, after: None,
        constants: Mapping[str, float | None] | None = None,
        steps_per_update: int | None = None,
    ) -> None:
        """`experience`: None if batches do not come from environments. `after_steps` is called with the agent steps
        before and after each step, before any update. `constants` are logged with every point of the curves.
        `steps_per_update`: None means the one of all training."""
        self.steps_per_update = steps_per_update or context.settings.training.steps_per_update
        self.context, self.weights, self.best, self.experience = context, weights, best, experience
        self.learner = Learner(context, weights, loss=loss, batches=batches, best=best)
        self.log = TrainingLog(context.progress, best, constants or {})
        self.evaluator = new_evaluator(context, weights.network)
        self.after_steps = after_steps
        self.acting_weights = self._acting_weights()
        self.rng = context.cpu_rng("acting")
        self.agent_steps, self.total_steps = 0, 0
        self.evaluated_at = 0  # agent steps at the last evaluation that is done or submitted
        self.learning = experience is None  # else once the replay holds enough
        self.pending: PendingStep | None = None

    def _acting_weights(self) -> FlatWeights[QNetwork]:
        """Whose actions are taken. On a GPU, a copy of the weights from before the last step's updates: so the next
        actions do not wait for updates, which take nearly as long as a step (deviation 34)."""
        if self.experience is None or self.context.device.type != "cuda":
            return self.weights
        self.experience.actor.policy.use_own_stream()
        return FlatWeights(self.context.copy_of(self.weights.network))

    def run(self, phase: str, total_steps: int, tasks: Sequence[Task]) -> None:
        """Trains to the end, with an evaluation on every task at every interval.

        Call it with the evaluator as a context manager, and ask that for its rows as late as possible: concurrent
        evaluations may still be running.
        """
        self.total_steps = total_steps
        self.log.begin(phase, total_steps)
        self.context.checkpointer.register("trainer", self)
        progress, interval = self.context.progress, self.context.settings.evaluation.interval
        progress.begin(phase, total_steps, done=self.agent_steps, curves=("training", "evaluation"))
        while self.evaluated_at < total_steps:
            self.train_to(min((self.evaluated_at // interval + 1) * interval, total_steps))
            if self.experience and self.agent_steps >= total_steps:
                self.experience.actor.leave()
            self.evaluator.evaluate(tasks, self.agent_steps)
            self.evaluated_at = self.agent_steps
            self.evaluator.wait_if_behind()
            progress.per_second(self.agent_steps)  # restarts the clock: evaluation is not training

    def train_to(self, agent_steps: int) -> None:
        """Trains to the next evaluation, which does not touch the environments: their episodes continue after it."""
        training = self.context.settings.training
        while self.agent_steps < agent_steps:
            self._reset_if_due()
            self.step()
            if self.experience and self.agent_steps % (training.reset_interval * training.num_envs) == 0:
                self.experience.actor.leave()  # already now: a checkpoint of this step needs no action log
            self.context.checkpointer.maybe_save(training.num_envs)
        self.flush()
        self._log()

    def _reset_if_due(self) -> None:
        """Resets environments that are not in use: at the start and at every reset boundary, in interrupted and
        uninterrupted runs alike, so that resuming never has to replay more actions than since the last boundary."""
        if self.experience and not self.experience.actor.in_use:
            self.flush()  # the last transitions before a reset have no next state
            self.experience.reset(self.context.derive_seed("games", self.agent_steps))  # the key of a random stream

    def step(self) -> None:
        """One agent step of every environment, and the updates that are due for it."""
        self.act()  # choose actions and start the environments
        self.store()  # the previous transition enters the replay
        self.learn()  # the updates that are due, while the environments step
        self.observe()  # wait for the environments

    def act(self) -> None:
        if self.experience:
            self.experience.actor.act(self.acting_weights.network, self._epsilon(self.agent_steps), self.rng)

    def store(self) -> None:
        """All effects of the previous step that must precede updates: replay, target network, log, best weights."""
        pending = self.pending
        if pending is None or pending.stored:
            return
        pending.stored = True
        if self.experience and pending.outcome:
            self.experience.store(pending.outcome)
        self.after_steps(pending.before, pending.after)
        ends_window = crossed(self.best.window, pending.before, pending.after)
        if crossed(self.log.interval, pending.before, pending.after) or ends_window:
            self.count()
            self._log()
        if ends_window:
            self.best.end_window()
            self.log.start_window()

    def learn(self) -> None:
        """The updates that are due; the actor gets the weights from before them."""
        training, before = self.context.settings.training, self.agent_steps
        if self.experience:
            enough = before >= training.learning_starts
            self.learning = self.learning or (enough and self.experience.replay.ready())
            if self.acting_weights is not self.weights:
                self.acting_weights.copy_from(self.weights)
            self.experience.actor.policy.allow_next()
        after = before + training.num_envs
        updates = after // self.steps_per_update - before // self.steps_per_update
        if self.learning and updates:
            if (annealing := self.context.settings.optimiser.annealing) and self.total_steps:
                self.learner.optimiser.anneal(annealed_rate(before / self.total_steps, annealing))
            self.learner.learn(updates)
            self.best.follow()

    def observe(self) -> None:
        """Waits for the environments. Until then, counts the previous step and samples the next random actions."""
        self.count()
        before, after = self.agent_steps, self.agent_steps + self.context.settings.training.num_envs
        outcome = None
        if self.experience:
            self.experience.actor.exploration.sample(self._epsilon(after), self.rng)
            outcome = self.experience.actor.observe()
        self.agent_steps, self.pending = after, PendingStep(before, after, outcome)
        if outcome is None:
            self.flush()  # there is no next action to wait for

    def count(self) -> None:
        """The remaining effects of a stored step, which may follow its updates: episode returns and progress."""
        if self.pending is None or not self.pending.stored:
            return
        pending, self.pending, returns = self.pending, None, []
        if self.experience and pending.outcome:
            self.experience.actor.statistics.add(pending.outcome.step)
            returns = self.experience.actor.statistics.take()
        self.best.scores += returns
        self.log.add_returns(returns)
        score = sum(returns) / len(returns) if returns else None
        self.context.progress.advance(self.context.settings.training.num_envs, score)

    def flush(self) -> None:
        """Completes the last step: before a checkpoint, an evaluation or a reset."""
        self.store()
        self.count()

    def _log(self) -> None:
        self.evaluator.poll()
        self.log.log(self.agent_steps, self._epsilon(self.agent_steps) if self.experience else None)

    def _epsilon(self, agent_steps: int) -> float:
        return epsilon_at(agent_steps, self.context.settings.training)

    def _parts(self) -> Parts:
        parts = Parts(weights=self.weights, optimiser=self.learner.optimiser, best=self.best, acting=self.rng)
        if self.experience:
            parts["actor"], parts["replay"] = self.experience.actor, self.experience.replay
        if self.acting_weights is not self.weights:
            parts["acting_weights"] = self.acting_weights
        return parts

    def state(self) -> State:
        self.flush()
        counters = {name: getattr(self, name) for name in ("agent_steps", "evaluated_at", "learning")}
        return {**counters, **self.evaluator.state(), **self._parts().state()}

    def restore(self, state: State) -> None:
        self.agent_steps, self.learning = state["agent_steps"], state["learning"]
        # Until version 0.2 environments were reset at every evaluation, and its agent steps had another name.
        self.evaluated_at = state["boundary"] if "boundary" in state else state["evaluated_at"]
        self._parts().restore({"acting_weights": state["weights"], **state})  # one saved on a CPU has none of its own
        self.evaluator.restore(state)
        self.log.resume(self.agent_steps)


def crossed(interval: int, before: int, after: int) -> bool:
    """Whether a multiple of the interval is in (before, after]."""
    return after // interval > before // interval
