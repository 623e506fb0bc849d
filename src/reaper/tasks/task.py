"""The contract between a game and everything that learns from it.

A `VectorTask` plays many copies of one game at once. It speaks of one agent step at a time:

    frames = task.reset(seed)
    task.send(actions)        # the games start to move ...
    step = task.receive()     # ... and have moved; the learner may work in between

A finished game is started anew on the *next* step: that step ignores its action, brings the new game's first frame
and a reward of zero, and is marked `autoreset`. It is not a transition, and nothing may learn from it as if it were.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    """What one step of all games brought: one row a game. Its arrays keep their values until the next `receive`."""

    frames: np.ndarray  # (num_envs, height, width) uint8; of a `show`, with three colours
    rewards: np.ndarray  # (num_envs,) float32: the score gained, never clipped
    done: np.ndarray  # (num_envs,) bool: the whole game is over, for whatever reason
    truncated: (
        np.ndarray
    )  # (num_envs,) bool: it is over only because of a time limit, so its end says nothing about value
    lost_life: np.ndarray  # (num_envs,) bool: a life went, whether or not the game goes on
    autoreset: np.ndarray  # (num_envs,) bool: no transition; the frame is the first of a new game


class VectorTask(ABC):
    """Many copies of one game, stepped together."""

    name: str
    num_envs: int
    num_actions: int
    frame_size: int  # frames are square
    leaves_gpu_alone = False  # whether a GPU may be kept waiting for `receive`; one that the games use may not

    @abstractmethod
    def reset(self, seed: int) -> np.ndarray:
        """Starts every game anew; the same seed and actions give the same frames."""

    @abstractmethod
    def send(self, actions: np.ndarray) -> None:
        """Sets all games moving with one action each and does not wait for them."""

    @abstractmethod
    def receive(self) -> Step:
        """Waits for the games set moving by `send`."""

    def close(self) -> None:  # noqa: B027 - most games hold nothing
        """Gives back what the games hold."""


@dataclass(frozen=True)
class Task:
    """A game that can be opened: what a task sequence is made of."""

    name: str
    title: str
    num_actions: int
    open: Callable[[int, int], VectorTask]  # (num_envs, frame_size) -> the running games
    frame_size: int | None = None  # None: frames are resized to whatever the sequence asks for
    about: str = ""
    # The same games as people see them: frames are (num_envs, height, width, 3), and the same seed and actions bring the
    # same play. None: what the agent sees is all there is.
    show: Callable[[int], VectorTask] | None = None
