"""One copy of a task as a plain Gymnasium environment, for programs that expect one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from reaper.errors import UserError
from reaper.tasks.observation import VECTOR, ObservationSpec, to_picture
from reaper.tasks.task import VectorTask


def box(spec: ObservationSpec) -> gymnasium.spaces.Box:
    """A Gymnasium space of such observations."""
    low, high = (0, 255) if spec.dtype == "uint8" else (-np.inf, np.inf)
    return gymnasium.spaces.Box(low, high, spec.shape, np.dtype(spec.dtype).type)


class TaskEnv(gymnasium.Env[np.ndarray, Any]):
    """Emits the task's own observations, one frame at a time, and rewards that are never clipped."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, task: VectorTask) -> None:
        if task.num_envs != 1:
            raise ValueError(f"a plain environment is one copy of a task, not {task.num_envs}")
        self._task, self._ended, self._frame = task, False, np.empty(0)
        self.observation_space, self.render_mode = box(task.observation), "rgb_array"
        self.action_space = gymnasium.spaces.Discrete(task.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is None and self._ended:  # the task resets itself with its next step, much faster than by a seed
            self._task.send(np.zeros(1, dtype=np.int64))
            self._frame = self._task.receive().observations[0].copy()
        else:
            self._frame = self._task.reset(int(self.np_random.integers(2**30)) if seed is None else seed)[0].copy()
        self._ended = False
        return self._frame, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action >= self._task.num_actions:
            name, number = self._task.name, self._task.num_actions
            how = f"choose with agent.for_task({name!r}).predict"
            raise UserError(f"{name} has {number} actions, so there is no action {action}; {how}")
        self._task.send(np.array([action], dtype=np.int64))
        step = self._task.receive()
        self._frame, self._ended = step.observations[0].copy(), bool(step.done[0])
        return self._frame, float(step.rewards[0]), bool(step.terminated[0]), bool(step.truncated[0]), {}

    def render(self) -> np.ndarray:
        if self._task.observation.kind == VECTOR:
            raise UserError(f"{self._task.name} emits vectors, which are no pictures; render your own copy of it")
        picture = to_picture(self._frame, self._task.observation.identity)
        return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)

    def close(self) -> None:
        self._task.close()
