"""Atari 2600 games through ale-py's C++ vector environment: 18 joystick actions, no sticky actions, full episodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from reaper.errors import UserError, unknown
from reaper.tasks.observation import COLOURS, ObservationSpec
from reaper.tasks.task import EnvOptions, Step, Task, VectorTask
from reaper.tasks.titles import GAMES

NUM_ACTIONS = 18
SCREEN = ObservationSpec((3, 210, 160))  # what an Atari displays


class EmulatorSetting(NamedTuple):
    value: Any
    meaning: str


# What an Atari game is to every agent. All of it is passed to ale-py by name, so that none of its defaults matters:
# they would press FIRE at every reset and clip rewards, and they have changed between versions.
EMULATOR_SETTINGS: Mapping[str, EmulatorSetting] = MappingProxyType(
    {
        "frameskip": EmulatorSetting(4, "emulator frames per agent step; each repeats the action"),
        "maxpool": EmulatorSetting(True, "a pixel is its maximum over the last two emulator frames of a step"),
        "stack_num": EmulatorSetting(1, "observations per step; the agent stacks frames itself"),
        "repeat_action_probability": EmulatorSetting(0.0, "no sticky actions"),
        "noop_max": EmulatorSetting(30, "an episode starts with 0 to 29 no-ops, uniformly, each one emulator frame"),
        "use_fire_reset": EmulatorSetting(False, "FIRE is not pressed at a reset; the agent has to"),
        "full_action_space": EmulatorSetting(True, "all 18 actions of the joystick in every game"),
        "continuous": EmulatorSetting(False, "discrete actions"),
        "continuous_action_threshold": EmulatorSetting(0.5, "unused with discrete actions"),
        "episodic_life": EmulatorSetting(False, "an episode is a whole game; training derives lost lives itself"),
        "life_loss_info": EmulatorSetting(False, "a lost life is no terminal of the environment"),
        "reward_clipping": EmulatorSetting(False, "rewards are the game's points; training clips them itself"),
        "max_num_frames_per_episode": EmulatorSetting(108_000, "emulator frames after the no-ops: half an hour"),
        "autoreset_mode": EmulatorSetting("NextStep", "the step after an episode returns the next one's first frame"),
        "batch_size": EmulatorSetting(0, "a step waits for all environments"),
        "thread_affinity_offset": EmulatorSetting(-1, "threads are not pinned to cores"),
    }
)


def automatic_threads() -> int:
    """One emulator thread per core that this process may use; ale-py's own default counts the cores of the whole
    machine. With a GPU two per core: nothing else needs the cores, and with one each, all wait for the slowest."""
    return len(os.sched_getaffinity(0)) * (2 if torch.cuda.is_available() else 1)


class AtariTask(VectorTask):
    """Copies of one Atari game, stepped by C++ threads while Python does something else.

    Observations are grey or colour images, resized to `options.observation`; in the human view, the whole screen.
    """

    num_actions = NUM_ACTIONS
    may_use_gpu = False

    def __init__(self, name: str, rom: str, options: EnvOptions, human_view: bool = False) -> None:
        from ale_py.vector_env import AtariVectorEnv

        self.name, self.num_envs = name, options.num_envs
        self.observation = SCREEN if human_view else options.observation
        channels, height, width = self.observation.shape
        self.colour = channels == COLOURS
        self._envs = AtariVectorEnv(
            rom,
            self.num_envs,
            num_threads=min(self.num_envs, options.emulator_threads or automatic_threads()),
            img_height=height,
            img_width=width,
            grayscale=not self.colour,
            **{name: setting.value for name, setting in EMULATOR_SETTINGS.items()},
        )

    def reset(self, seed: int) -> np.ndarray:
        frames, info = self._envs.reset(seed=seed % 2**30)  # environments get consecutive 32-bit seeds
        self._lives = info["lives"].copy()
        self._done = np.zeros(self.num_envs, dtype=bool)
        return self._observations(frames)

    def send(self, actions: np.ndarray) -> None:
        self._envs.send(actions)

    def receive(self) -> Step:
        frames, rewards, terminated, truncated, info = self._envs.recv()
        autoreset, lives = self._done, info["lives"].copy()
        lost_life = (lives < self._lives) & ~autoreset
        self._lives, self._done = lives, terminated | truncated
        return Step(
            observations=self._observations(frames),
            rewards=rewards.astype(np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            lost_life=lost_life,
            autoreset=autoreset,
        )

    def _observations(self, frames: np.ndarray) -> np.ndarray:
        """ale-py's frames (num_envs, 1, height, width[, 3]): the axis of the stack is that of the one grey channel."""
        return np.moveaxis(frames[:, 0], -1, 1) if self.colour else frames

    def close(self) -> None:
        self._envs.close()
        del self._envs  # its C++ threads end with the object


def atari_task(name: str) -> Task:
    """An Atari game by its Gymnasium id, such as ALE/Boxing-v5."""
    gymnasium = _gymnasium_with_ale()
    try:
        rom = gymnasium.spec(name).kwargs["game"]
    except (gymnasium.error.Error, KeyError):
        raise unknown("Atari game", name, [i for i in gymnasium.registry if i.startswith("ALE/")]) from None
    from ale_py import roms

    if roms.get_rom_path(rom) is None:
        raise UserError(f"the ROM of {name} is missing: pip install --force-reinstall 'ale-py>=0.11'")
    return Task(
        name=name,
        title=GAMES.get(rom, " ".join(rom.split("_")).title()),
        num_actions=NUM_ACTIONS,
        open=lambda options: AtariTask(name, rom, options),
        about="Atari 2600",
        human_view=lambda options: AtariTask(name, rom, options, human_view=True),
    )


def _gymnasium_with_ale() -> Any:
    try:
        import ale_py
        import gymnasium
    except ImportError:
        raise UserError("Atari tasks need ale-py: pip install 'reaper-rl[atari]'") from None
    gymnasium.register_envs(ale_py)
    return gymnasium
