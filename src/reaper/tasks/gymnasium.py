"""Any Gymnasium environment with discrete actions and observations that spaces.py has a rule for."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from reaper.errors import UserError, unknown
from reaper.tasks.env_group import find_spec, make_copy
from reaper.tasks.observation import BOARD, COLOURS, VECTOR, ObservationSpec
from reaper.tasks.rendering import RenderedTask
from reaper.tasks.spaces import board_values, emitted_spec
from reaper.tasks.stepping import OwnVectorEnv, measure, open_stepper
from reaper.tasks.task import EnvOptions, Step, Task, VectorTask
from reaper.tasks.titles import short_title

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def to_grey(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Grey, resized images: (N, h, w[, 1 or 3]) uint8 -> (N, 1, height, width) uint8."""
    grey = images
    if images.ndim == 4:
        grey = images[..., 0] if images.shape[-1] == 1 else images.astype(np.float32) @ LUMA
    return _resized(grey[:, None], height, width)


def to_colour(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resized images: (N, h, w[, 1 or 3]) uint8 -> (N, 3, height, width) uint8; grey ones have equal channels."""
    channels = np.moveaxis(images if images.ndim == 4 else images[..., None], -1, 1)
    return _resized(channels.repeat(COLOURS // channels.shape[1], axis=1), height, width)


def _resized(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """(N, channels, h, w) -> (N, channels, height, width) uint8: areas are averaged, or pixels repeated."""
    if images.shape[2:] == (height, width):
        return np.ascontiguousarray(np.rint(images).astype(np.uint8))
    pixels = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32))
    shrinks = min(images.shape[2:]) >= max(height, width)
    mode: dict[str, Any] = {"mode": "area"} if shrinks else {"mode": "nearest-exact"}
    resized = torch.nn.functional.interpolate(pixels, size=(height, width), **mode)
    return resized.round().clamp(0, 255).to(torch.uint8).numpy()


def to_frames(images: np.ndarray, frame: ObservationSpec) -> np.ndarray:
    """Images of an environment as an agent sees them: (N, h, w[, 1 or 3]) uint8 -> (N, *frame.shape)."""
    channels, height, width = frame.shape
    return (to_colour if channels == COLOURS else to_grey)(images, height, width)


class GymnasiumTask(VectorTask):
    """Copies of a Gymnasium environment, stepped in this process or by others (stepping.py)."""

    def __init__(self, name: str, options: EnvOptions) -> None:
        self.name, self.num_envs, self.observation = name, options.num_envs, options.observation
        with make_copy(find_spec(name)) as env:
            actions: Any = env.action_space
            self._space = env.observation_space
            may_use_own = env.observation_space == env.unwrapped.observation_space
        self.num_actions, self._first_action = int(actions.n), int(actions.start)
        own = options.vector_env and may_use_own and find_spec(name).vector_entry_point is not None
        self._envs = (
            OwnVectorEnv(name, self.num_envs) if own else open_stepper(name, self.num_envs, options.env_workers)
        )

    def reset(self, seed: int) -> np.ndarray:
        first = self._envs.reset(seed % 2**30)
        self._done = np.zeros(self.num_envs, dtype=bool)
        self._lives = first.lives.copy()
        return self._observed(first.observations)

    def send(self, actions: np.ndarray) -> None:
        self._envs.send(actions + self._first_action)

    def receive(self) -> Step:
        stepped = self._envs.receive()
        autoreset, done = self._done, stepped.terminated | stepped.truncated
        lost_life = (stepped.lives < self._lives) & ~autoreset
        self._done, self._lives = done, stepped.lives.copy()
        return Step(
            observations=self._observed(stepped.observations),
            rewards=stepped.rewards.astype(np.float32),
            terminated=stepped.terminated.copy(),
            truncated=stepped.truncated & ~stepped.terminated,
            lost_life=lost_life,
            autoreset=autoreset,
        )

    def _observed(self, observations: np.ndarray) -> np.ndarray:
        if self.observation.kind == VECTOR:
            return np.array(observations)  # the environments write their next observations into the same array
        if self.observation.kind == BOARD:
            return board_values(observations, self._space)
        return to_frames(observations, self.observation)

    def close(self) -> None:
        self._envs.close()


def gymnasium_task(name: str) -> Task:
    """A registered Gymnasium environment as a task; an unsupported one is refused with the reason."""
    try:
        environment = gymnasium.make(name)
    except gymnasium.error.DependencyNotInstalled as missing:
        extra = "; pip install 'reaper-rl[classic]'" if "Box2D" in str(missing) else ""
        raise UserError(f"{name} cannot be opened: {str(missing).partition(',')[0]}{extra}") from None
    except gymnasium.error.Error:
        raise unknown("task", name, gymnasium.registry) from None
    except ImportError as missing:
        if name.startswith("minigrid:"):
            reason = str(missing).partition(". ")[0]  # Gymnasium adds a second sentence about registration
            raise UserError(f"{name} cannot be opened: {reason}; pip install 'reaper-rl[minigrid]'") from None
        raise UserError(f"{name} cannot be opened: {missing}") from None
    observation, action = environment.observation_space, environment.action_space
    environment.close()
    check_actions(name, action)
    assert isinstance(action, gymnasium.spaces.Discrete)
    return Task(
        name=name,
        title=short_title(name),
        num_actions=int(action.n),
        open=lambda options: GymnasiumTask(name, options),
        observation=(emitted := emitted_spec(name, observation)),
        about="Gymnasium",
        human_view=(lambda options: RenderedTask(name)) if emitted is not None else None,
        is_deterministic=lambda: measure(name).deterministic,
    )


def check_actions(name: str, space: gymnasium.Space) -> None:
    """Refuses actions that are not discrete, and names an alternative."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return
    kind = "continuous actions" if isinstance(space, gymnasium.spaces.Box) else "actions"
    raise UserError(
        f"{name} has {kind} {space}; an agent needs a Discrete action space: register the environment with a wrapper "
        "that offers a list of them (gymnasium.wrappers.TransformAction)"
    )
