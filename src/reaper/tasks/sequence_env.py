"""A whole sequence as one Gymnasium environment: its tasks one after another, so that any agent can be trained on it.

    reset(seed=0)  task 1, episode 1 ... until `steps_per_task` steps are done, then the episode is truncated
    reset()        task 2 (info["task_switch"] is True), ...

The last task continues for as long as it is stepped. A seed starts the sequence anew.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from reaper.config.settings import Settings
from reaper.tasks.identity import place_of
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import Sequence, open_task
from reaper.tasks.task import EnvOptions
from reaper.tasks.task_env import TaskEnv, box
from reaper.tasks.wrappers import stack_frames


class SequenceEnv(gymnasium.Env[np.ndarray, Any]):
    """States and actions of the sequence, as its agents see and choose them. An action that a task lacks is its first.

    `info` holds `task` (its name), `task_index` (from zero) and `task_switch`: whether this episode is the first of its
    task, the very first episode included.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, sequence: Sequence, settings: Settings, steps_per_task: int) -> None:
        self.sequence, self.steps_per_task = sequence, steps_per_task
        self._settings, self._state = settings, state_spec(settings.observation)
        self.observation_space = box(self._state)
        self.action_space = gymnasium.spaces.Discrete(sequence.num_actions)
        self.render_mode = "rgb_array"
        self._place, self._steps = 0, 0  # of the current task; steps done in it
        self._env: gymnasium.Env | None = None  # of the current task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self._leave()
            self._place, self._steps = 0, 0
        elif self._steps >= self.steps_per_task and self._place + 1 < len(self.sequence.tasks):
            self._leave()
            self._place, self._steps = self._place + 1, 0
        first = self._env is None
        if self._env is None:
            self._env = self._open()
        given = seed if seed is not None else int(self.np_random.integers(2**30)) if first else None
        observation, info = self._env.reset(seed=given)
        return observation, {**info, **self._about(switched=first)}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self._env is not None, "reset the environment before the first step"
        own = int(action) if int(action) < self.sequence.tasks[self._place].num_actions else 0
        observation, reward, terminated, truncated, info = self._env.step(own)
        self._steps += 1
        ends = self._steps >= self.steps_per_task and self._place + 1 < len(self.sequence.tasks)
        return observation, float(reward), terminated, truncated or (ends and not terminated), {**info, **self._about()}

    def _about(self, switched: bool = False) -> dict[str, Any]:
        return {"task": self.sequence.names[self._place], "task_index": self._place, "task_switch": switched}

    def _open(self) -> gymnasium.Env:
        task = self.sequence.tasks[self._place]
        scale = self._settings.scales.get(task.name)
        place = place_of(task.name, self._settings.observation)
        envs = open_task(task, EnvOptions(1, self._state.frame, scale=scale, place=place, env_workers=0))
        return stack_frames(TaskEnv(envs), self._state)

    def _leave(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    def render(self) -> Any:
        assert self._env is not None, "reset the environment before it is rendered"
        return self._env.render()

    def close(self) -> None:
        self._leave()
