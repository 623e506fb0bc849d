"""Experience: an actor in the environments of a task, and the replay that its transitions go to."""

from __future__ import annotations

from collections.abc import Callable

from reaper.compute.cuda_graph import capture_graph
from reaper.context import Context
from reaper.learning.actor import Actor, Outcome, new_actor
from reaper.memory.replay import Replay
from reaper.tasks.task import Task


class Experience:
    """Opens a task's environments for training, and stores their transitions."""

    def __init__(self, context: Context, task: Task) -> None:
        training, n_step = context.settings.training, context.settings.short_term.n_step
        self.actor: Actor = new_actor(context, context.open(task, training.num_envs, training.vector_env))
        self.replay = Replay(training.replay_capacity, training.num_envs, context.observation, context.device, n_step)
        self._captures = context.device.type == "cuda" and context.cuda_graphs
        self._graph: Callable[[], None] | None = None

    def store(self, outcome: Outcome) -> None:
        self.actor.write_outcome(outcome)
        if self._captures and self._graph is None:
            self._graph = capture_graph(self._add)
        (self._graph or self._add)()

    def _add(self) -> None:
        self.replay.add(self.actor.transition())

    def reset(self, seed: int) -> None:
        """Resets all environments; the newest stored transitions have no next state."""
        self.replay.truncate()
        self.actor.reset(seed)

    def close(self) -> None:
        """Closes the environments; the replay stays."""
        self.actor.envs.close()
