"""Collecting a replay with a finished agent.

No replay is ever stored or passed from stage to stage. A stage that needs states of a task has the task's teacher act
again, for as many steps and with the same epsilon schedule as at the end of its training.
"""

from __future__ import annotations

import torch

from reaper.context import Context
from reaper.learning.experience import Experience
from reaper.learning.exploration import epsilon_at
from reaper.memory.replay import Replay
from reaper.state import Parts, State
from reaper.tasks.task import Task


class ReplayCollection:
    """A collection in progress; checkpointed."""

    def __init__(self, context: Context, policy: torch.nn.Module, task: Task) -> None:
        self.context, self.policy, self.task = context, policy, task
        self.experience = Experience(context, task)
        self.rng = context.cpu_rng("gathering")  # the key of a random stream: renaming it would change every result
        self.total = context.settings.short_term.agent_steps
        self.first = max(0, self.total - context.settings.training.replay_capacity)
        self.agent_steps: int | None = None  # on the teacher's schedule; None: not started

    def run(self) -> Replay:
        context, actor, replay = self.context, self.experience.actor, self.experience.replay
        training = context.settings.training
        context.checkpointer.register("collection", self)
        if self.agent_steps is None:
            self.agent_steps = self.first
            actor.reset(context.derive_seed("gathered games"))  # the key of a random stream
        least = (context.settings.observation.frame_stack + 2) * training.num_envs
        total = max(self.total - self.first, least)
        context.progress.begin(f"collect {self.task.title}", total, done=self.agent_steps - self.first)
        while self.agent_steps < self.total or not replay.ready():
            actor.act(self.policy, epsilon_at(self.agent_steps, training), self.rng)
            outcome = actor.observe()
            actor.write_outcome(outcome)
            replay.add(actor.transition())
            actor.statistics.add(outcome.step)
            returns = actor.statistics.take()
            context.progress.advance(training.num_envs, sum(returns) / len(returns) if returns else None)
            self.agent_steps += training.num_envs
            context.checkpointer.maybe_save(training.num_envs)
        self.close()
        return replay

    def close(self) -> None:
        self.experience.actor.leave()
        self.experience.close()

    def _parts(self) -> Parts:
        return Parts(replay=self.experience.replay, actor=self.experience.actor, acting=self.rng)

    def state(self) -> State:
        return {"agent_steps": self.agent_steps, **self._parts().state()}

    def restore(self, state: State) -> None:
        self.agent_steps = state["agent_steps"]
        self._parts().restore(state)


def collect_replay(context: Context, policy: torch.nn.Module, task: Task) -> Replay:
    """The replay that the policy's own training would have left behind."""
    return ReplayCollection(context, policy, task).run()
