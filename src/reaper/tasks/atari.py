"""Atari 2600 games through ale-py's C++ vector environment: 18 joystick actions, no sticky actions, whole games."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from reaper.errors import UserError
from reaper.tasks.task import Step, Task, VectorTask

NUM_ACTIONS = 18
SCREEN = (210, 160)  # height and width of what an Atari shows
EMULATOR_FRAMES = 108_000  # half an hour of play, the longest a game may last
TITLES = {"jamesbond": "James Bond", "qbert": "Q*bert"}  # where the ROM's name is not the game's
THREADS = "REAPER_EMULATOR_THREADS"  # environment variable: how many threads step the games of one task


def _ale() -> Any:
    try:
        import ale_py
        import gymnasium
    except ImportError:
        raise UserError("Atari tasks need ale-py: pip install 'reaper-rl[atari]'") from None
    gymnasium.register_envs(ale_py)
    return gymnasium


def emulator_threads() -> int:
    """As many as the cores this process may use; the emulator's own default counts those of the whole machine. Twice as
    many beside a GPU: there nothing else wants the cores, and with one thread for each all wait for the slowest."""
    given = os.environ.get(THREADS, "")
    if given and not (given.isdecimal() and int(given) > 0):
        raise UserError(f"{THREADS} must be a whole number of at least 1, not {given!r}")
    if given:
        return int(given)
    return len(os.sched_getaffinity(0)) * (2 if torch.cuda.is_available() else 1)


class AtariTask(VectorTask):
    """Many copies of one Atari game, stepped by C++ threads while Python does something else."""

    num_actions = NUM_ACTIONS
    leaves_gpu_alone = True

    def __init__(self, name: str, rom: str, num_envs: int, frame_size: int | None) -> None:
        """Without a frame size, frames are the whole screen in colour."""
        from ale_py.vector_env import AtariVectorEnv

        self.name, self.num_envs, self.frame_size = name, num_envs, frame_size or SCREEN[0]
        height, width = (frame_size, frame_size) if frame_size else SCREEN
        self._emulators = AtariVectorEnv(
            rom,
            num_envs,
            num_threads=min(num_envs, emulator_threads()),
            full_action_space=True,
            stack_num=1,  # stacks are the player's business
            img_height=height,
            img_width=width,
            grayscale=frame_size is not None,
            max_num_frames_per_episode=EMULATOR_FRAMES,
            # The defaults would press FIRE at every start, restart the game at every lost life and hide the score.
            use_fire_reset=False,
            episodic_life=False,
            reward_clipping=False,
        )

    def reset(self, seed: int) -> np.ndarray:
        frames, info = self._emulators.reset(seed=seed % 2**30)  # consecutive 32-bit seeds, one a game
        self._lives = info["lives"].copy()
        self._was_ended = np.zeros(self.num_envs, dtype=bool)
        return frames[:, 0]

    def send(self, actions: np.ndarray) -> None:
        self._emulators.send(actions)

    def receive(self) -> Step:
        frames, rewards, terminated, truncated, info = self._emulators.recv()
        autoreset, ended = self._was_ended, terminated | truncated
        lost_life = (info["lives"] < self._lives) & ~autoreset
        self._lives, self._was_ended = info["lives"].copy(), ended
        return Step(frames[:, 0], rewards.astype(np.float32), ended, truncated & ~terminated, lost_life, autoreset)

    def close(self) -> None:
        self._emulators.close()
        del self._emulators  # its C++ threads end with the object


def atari_task(name: str) -> Task:
    """An Atari game by its Gymnasium id, such as ALE/Boxing-v5."""
    gymnasium = _ale()
    try:
        rom = gymnasium.spec(name).kwargs["game"]
    except (gymnasium.error.Error, KeyError):
        from reaper.errors import unknown

        raise unknown("Atari game", name, [i for i in gymnasium.registry if i.startswith("ALE/")]) from None
    from ale_py import roms

    if roms.get_rom_path(rom) is None:
        raise UserError(f"the ROM of {name} is missing: pip install --force-reinstall 'ale-py>=0.11'")
    title = TITLES.get(rom, " ".join(rom.split("_")).title())
    return Task(
        name,
        title,
        NUM_ACTIONS,
        lambda num_envs, size: AtariTask(name, rom, num_envs, size),
        about="Atari 2600",
        show=lambda num_envs: AtariTask(name, rom, num_envs, None),
    )
