"""The contract between environments and everything that learns from them.

A `VectorTask` steps `num_envs` copies of one environment together, one agent step at a time:

    observations = task.reset(seed)
    task.send(actions)        # the environments start to step ...
    step = task.receive()     # ... and have stepped; the learner may work in between

Environments reset as in Gymnasium's `AutoresetMode.NEXT_STEP`: the step after the end of an episode ignores its action,
returns the first observation of the next episode with a reward of zero, and is marked `autoreset`. It is not a
transition, and nothing may learn from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reaper.tasks.observation import ObservationSpec


@dataclass(frozen=True)
class Step:
    """What one step of all environments returned, one row per environment. Arrays keep their values until the next
    `receive`."""

    observations: np.ndarray  # (num_envs, *observation.shape)
    rewards: np.ndarray  # (num_envs,) float32, never clipped
    terminated: np.ndarray  # (num_envs,) bool: the episode reached a terminal state
    truncated: np.ndarray  # (num_envs,) bool: a time limit ended the episode, and nothing else did
    lost_life: np.ndarray  # (num_envs,) bool: a life was lost, whether or not the episode continues
    autoreset: np.ndarray  # (num_envs,) bool: not a transition, but the first observation of a new episode

    @property
    def done(self) -> np.ndarray:
        """(num_envs,) bool: the episode ended, for whatever reason."""
        return self.terminated | self.truncated

    def with_observations(self, observations: np.ndarray) -> Step:
        return replace(self, observations=observations)


class VectorTask(ABC):
    """Copies of one environment, stepped together."""

    name: str
    num_envs: int
    num_actions: int  # the task's own; a network of a sequence with more actions uses its first outputs
    observation: ObservationSpec  # of one environment and one step
    may_use_gpu = True  # False: `receive` needs no GPU, so a GPU stream may be blocked until it returns

    @abstractmethod
    def reset(self, seed: int) -> np.ndarray:
        """Resets every environment; the same seed and actions must lead to the same observations."""

    @abstractmethod
    def send(self, actions: np.ndarray) -> None:
        """Starts a step with one action per environment, and does not wait for it."""

    @abstractmethod
    def receive(self) -> Step:
        """Waits for the step that `send` started."""

    def close(self) -> None:  # noqa: B027 - most tasks hold nothing
        """Releases what the environments hold."""


@dataclass(frozen=True)
class EnvOptions:
    """How a task is opened."""

    num_envs: int
    observation: ObservationSpec  # what the sequence's tasks share, of one environment and one step
    emulator_threads: int | None = None  # that step the environments; None: chosen from the cores; Atari only
    scale: Any = None  # centres and units of the task's vector observations (scaling.py); None: to be measured
    place: int | None = None  # of the task among the identities that observations tell (identity.py); None: no identity
    vector_env: bool = False  # use the environment's own vector implementation, if it has one; Gymnasium only
    env_workers: int | None = None  # processes that step them; 0: none but this; None: measured; Gymnasium only


@dataclass(frozen=True)
class Task:
    """An environment that can be opened: what a task sequence consists of."""

    name: str
    title: str
    num_actions: int
    open: Callable[[EnvOptions], VectorTask]
    # What it emits. None: images, resized to what the sequence asks for. Vectors are scaled, and padded to the longest
    # of the sequence; the task itself emits them as they are, in any type of numbers.
    observation: ObservationSpec | None = None
    about: str = ""
    # The same environments rendered for people, as images (3, height, width): the same seed and actions lead to the
    # same episode. None: there is no other view than what the agent observes.
    human_view: Callable[[EnvOptions], VectorTask] | None = None
    # Whether the same seed and actions lead to the same observations, measured; None: it is known to.
    is_deterministic: Callable[[], bool] | None = None
