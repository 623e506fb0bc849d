"""A plain Atari environment of ale-py, made to behave as the vector environment that agents are trained in (atari.py).

That vector environment steps many games in C++. Here one game is stepped by its Gymnasium environment, which may skip
frames and repeat actions on its own: what cannot be undone from outside is reported in a warning.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from reaper.tasks.atari import EMULATOR_SETTINGS
from reaper.tasks.observation import COLOURS, ObservationSpec
from reaper.tasks.task_env import box

FRAME_SKIP: int = EMULATOR_SETTINGS["frameskip"].value
NOOP_MAX: int = EMULATOR_SETTINGS["noop_max"].value
DIRECTIONS = ("UP", "DOWN", "LEFT", "RIGHT", "FIRE")


def shows_screen(env: gymnasium.Env) -> bool:
    """Whether this is ale-py's environment with its own actions and the whole screen as its observation."""
    game, shape = env.unwrapped, env.observation_space.shape or ()
    if not hasattr(game, "ale") or env.action_space != game.action_space:
        return False
    return shape[:2] == tuple(game.ale.getScreenDims())  # type: ignore[attr-defined]


class AtariScreen(gymnasium.Wrapper):
    """Resized screens, grey or in colour, one per agent step of four emulator frames, and the joystick's 18 actions."""

    def __init__(self, env: gymnasium.Env, frame: ObservationSpec) -> None:
        super().__init__(env)
        game: Any = env.unwrapped
        colour = frame.shape[0] == COLOURS
        self._screen = game.ale.getScreenRGB if colour else game.ale.getScreenGrayscale
        self._size = frame.shape[1:]
        skipped = game._frameskip if isinstance(game._frameskip, int) else FRAME_SKIP  # a range: taken for four
        self._steps, self._frames_per_step = max(1, FRAME_SKIP // skipped), skipped
        joystick = [action.name for action in game.ale.getLegalActionSet()]
        self._actions = [nearest_action(wanted, game.get_action_meanings()) for wanted in joystick]
        self.observation_space, self.action_space = box(frame), Discrete(len(joystick))
        if differs := _differences(game):
            name = env.spec.id if env.spec else "this Atari environment"
            warnings.warn(
                f"{name} {' and '.join(differs)}, unlike the games that agents are trained on: make it with "
                "frameskip=1, repeat_action_probability=0.0",
                stacklevel=5,
            )

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        _, info = self.env.reset(**options)
        for _ in range(int(self.np_random.integers(NOOP_MAX)) // self._frames_per_step):
            _, _, terminated, truncated, info = self.env.step(self._actions[0])
            if terminated or truncated:
                _, info = self.env.reset()
        return self._resized(self._screen()), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        total, screens, terminated, truncated, info = 0.0, [], False, False, {}
        for _ in range(self._steps):
            _, reward, terminated, truncated, info = self.env.step(self._actions[action])
            total += float(reward)
            screens = [*screens[-1:], self._screen()]
            if terminated or truncated:
                break
        return self._resized(np.max(screens, axis=0)), total, terminated, truncated, info

    def _resized(self, screen: np.ndarray) -> np.ndarray:
        """(h, w[, 3]) uint8 -> (channels, height, width) uint8; each pixel is the mean of the area it covers."""
        channels = screen[None] if screen.ndim == 2 else np.moveaxis(screen, -1, 0)
        rows, columns = (_area_weights(old, new) for old, new in zip(channels.shape[1:], self._size, strict=True))
        return np.rint(rows @ channels.astype(np.float32) @ columns.T).astype(np.uint8)


def _differences(game: Any) -> list[str]:
    """What this environment does on its own and training does not."""
    found = []
    if game._frameskip != 1:
        found.append(f"skips frames on its own ({game._frameskip}), so that no two can be pooled")
    if sticky := game.ale.getFloat("repeat_action_probability"):
        found.append(f"has sticky actions ({sticky:g})")
    return found


@cache
def _area_weights(old: int, new: int) -> np.ndarray:
    """(new, old) float32: which share of each new pixel every old one covers."""
    ends = np.arange(new + 1) * (old / new)
    left, right = np.arange(old), np.arange(old) + 1
    covered = np.minimum(ends[1:, None], right) - np.maximum(ends[:-1, None], left)
    return (np.clip(covered, 0, None) * (new / old)).astype(np.float32)


def nearest_action(wanted: str, known: list[str]) -> int:
    """The index of a joystick action among those a game knows. ale-py leaves out those that only add a direction, or
    a button, which the game ignores; so the known action with the most in common, and nothing else, does the same."""
    parts = {name: {part for part in DIRECTIONS if part in name} for name in (wanted, *known)}
    fitting = [name for name in known if parts[name] <= parts[wanted]]
    return known.index(max(fitting, key=lambda name: len(parts[name])))


def joystick_to_minimal(name: str) -> list[int]:
    """For each of the 18 joystick actions, the one of the game's minimal action set that does the same. The first
    joystick action that maps to one of these is that very action: ale-py lists those that add a direction later."""
    import ale_py
    import gymnasium
    from ale_py import roms

    emulator = ale_py.ALEInterface()
    emulator.loadROM(str(roms.get_rom_path(gymnasium.spec(name).kwargs["game"])))
    minimal = [action.name for action in emulator.getMinimalActionSet()]
    return [nearest_action(action.name, minimal) for action in emulator.getLegalActionSet()]
