"""Atari 2600 games through ale-py's C++ vector environment: 18 joystick actions, no sticky actions, full episodes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from reaper.errors import UserError, unknown
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import EnvOptions, Step, Task, VectorTask

NUM_ACTIONS = 18
SCREEN = ObservationSpec((3, 210, 160))  # what an Atari displays
MAX_EPISODE_FRAMES = 108_000  # emulator frames: half an hour of play
TITLES = {"jamesbond": "James Bond", "qbert": "Q*bert"}  # where the ROM's name is not the game's


def automatic_threads() -> int:
    """One emulator thread per core that this process may use; ale-py's own default counts the cores of the whole
    machine. With a GPU two per core: nothing else needs the cores, and with one each, all wait for the slowest."""
    return len(os.sched_getaffinity(0)) * (2 if torch.cuda.is_available() else 1)


class AtariTask(VectorTask):
    """Copies of one Atari game, stepped by C++ threads while Python does something else.

    Observations are grey images, resized to `options.observation`; in the human view, the whole screen in colour.
    """

    num_actions = NUM_ACTIONS
    may_use_gpu = False

    def __init__(self, name: str, rom: str, options: EnvOptions, human_view: bool = False) -> None:
        from ale_py.vector_env import AtariVectorEnv

        self.name, self.num_envs, self.human_view = name, options.num_envs, human_view
        self.observation = SCREEN if human_view else options.observation
        _, height, width = self.observation.shape
        self._envs = AtariVectorEnv(
            rom,
            self.num_envs,
            num_threads=min(self.num_envs, options.emulator_threads or automatic_threads()),
            full_action_space=True,
            stack_num=1,  # the actor stacks frames
            img_height=height,
            img_width=width,
            grayscale=not human_view,
            max_num_frames_per_episode=MAX_EPISODE_FRAMES,
            # The defaults would press FIRE at every reset, end episodes at every lost life and clip rewards.
            use_fire_reset=False,
            episodic_life=False,
            reward_clipping=False,
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
        return np.moveaxis(frames[:, 0], -1, 1) if self.human_view else frames

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
        title=TITLES.get(rom, " ".join(rom.split("_")).title()),
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
