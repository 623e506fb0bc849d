"""Task identity as part of an observation, for tasks that cannot be told apart otherwise (`observation.task-id`).

By default an agent has to recognise a task by what it sees. Where tasks look the same and differ in their goals, that
is impossible. With `one-hot`, a vector gets one more number per task, 1 for the task's own and 0 for the others, and an
image one more channel per task, white or black. Generated states have an identity, too: the generator learns it like
anything else in a state.
"""

from __future__ import annotations

import numpy as np

from reaper.config.settings import ObservationSettings
from reaper.errors import UserError
from reaper.tasks.observation import ObservationSpec, task_identities
from reaper.tasks.task import Step, VectorTask


def place_of(task: str, settings: ObservationSettings) -> int | None:
    """The place of a task among the identities; None where observations have none."""
    names = task_identities(settings)
    if names and task not in names:
        raise UserError(f"{task} has no place in --observation.task-names, which are {', '.join(names)}")
    return names.index(task) if names else None


def with_identity(observations: np.ndarray, place: int, observation: ObservationSpec) -> np.ndarray:
    """(N, *observation.without_identity.shape) -> (N, *observation.shape)."""
    found = np.zeros((len(observations), *observation.shape), dtype=observations.dtype)
    own = observations.shape[1]
    found[:, :own] = observations
    found[:, own + place] = 255 if observation.dtype == "uint8" else 1
    return found


class IdentifiedTask(VectorTask):
    """A task whose observations tell which task it is."""

    def __init__(self, task: VectorTask, place: int, observation: ObservationSpec) -> None:
        self._task, self._place, self.observation = task, place, observation
        self.name, self.num_envs, self.num_actions = task.name, task.num_envs, task.num_actions
        self.may_use_gpu = task.may_use_gpu

    def reset(self, seed: int) -> np.ndarray:
        return with_identity(self._task.reset(seed), self._place, self.observation)

    def send(self, actions: np.ndarray) -> None:
        self._task.send(actions)

    def receive(self) -> Step:
        step = self._task.receive()
        return step.with_observations(with_identity(step.observations, self._place, self.observation))

    def close(self) -> None:
        self._task.close()
