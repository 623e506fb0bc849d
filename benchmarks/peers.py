"""Agent steps a second of short-term learning at Atari size, beside stable-baselines3's DQN and a one-file DQN.

All learn Boxing with the 18 joystick actions, a frame skip of 4, the same network and one update of 32 transitions per
four agent steps. They take turns in processes of their own, so that none tunes another's memory or threads, and the
medians are compared.

    make bench
    python benchmarks/peers.py --device cuda --frames 4000
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

GAME, ROM = "ALE/Boxing-v5", "boxing"
WARM_UP = 400


def their_games(environments: int) -> Any:
    """Games for stable-baselines3: with its own wrappers where OpenCV is there for them (one or a few games), else the
    emulator's C++ vector environment, which is quicker than they are."""
    import ale_py
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecFrameStack  # pyright: ignore[reportMissingImports]

    gymnasium.register_envs(ale_py)
    try:
        import cv2  # noqa: F401  # pyright: ignore
    except ImportError:
        return _vectorised(environments)
    if environments > 8:
        return _vectorised(environments)
    # The wrapper skips and pools the frames itself, so the emulator must not.
    emulator = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": True}
    wrapper = {"terminal_on_life_loss": False}
    games = make_atari_env(GAME, n_envs=environments, seed=0, env_kwargs=emulator, wrapper_kwargs=wrapper)
    return VecFrameStack(games, n_stack=4)


def _vectorised(environments: int) -> Any:
    import numpy as np
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]

    class Games(VecEnv):
        def __init__(self) -> None:
            self.emulators = AtariVectorEnv(ROM, environments, full_action_space=True, use_fire_reset=False)
            super().__init__(environments, Box(0, 255, (4, 84, 84), np.uint8), Discrete(18))

        def reset(self) -> Any:
            return self.emulators.reset(seed=0)[0]

        def step_async(self, actions: Any) -> None:
            self.emulators.send(actions)

        def step_wait(self) -> Any:
            frames, rewards, ended, truncated, _ = self.emulators.recv()
            infos = [{"terminal_observation": frame} if end else {} for frame, end in zip(frames, ended, strict=True)]
            return frames, rewards, ended | truncated, infos

        def close(self) -> None:
            self.emulators.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * environments

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *words: Any, indices: Any = None, **named: Any) -> list[Any]:
            return [None] * environments

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * environments

    return Games()


def stable_baselines3_rate(frames: int, device: str, environments: int) -> float:
    """stable-baselines3's DQN once learning has started; 1 environment is its default, more keep the same ratio."""
    try:
        from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SystemExit(f"{error.name} is missing: pip install 'reaper-rl[peers]'") from None
    learner = DQN(
        "CnnPolicy",
        their_games(environments),
        buffer_size=20_000,
        learning_starts=WARM_UP // 4,
        batch_size=32,
        train_freq=max(4 // environments, 1),
        gradient_steps=max(environments // 4, 1),
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        device=device,
        seed=0,
    )
    learner.learn(WARM_UP)
    updates, seen, start = learner._n_updates, learner.num_timesteps, time.perf_counter()
    learner.learn(frames, reset_num_timesteps=False)
    seconds, observed = time.perf_counter() - start, learner.num_timesteps - seen
    if learner._n_updates - updates != observed // 4:
        raise RuntimeError(f"{learner._n_updates - updates} updates for {observed} frames, not one per four")
    return observed / seconds


def single_file_rate(frames: int, device: str) -> float:
    import torch
    from single_file_dqn import learn

    return learn(ROM, frames, torch.device(device))


def reaper_rate(frames: int, device_name: str) -> float:
    """Our short-term learning with the paper's settings (64 games at once), once learning has started."""
    import torch

    from reaper.compute.compilation import use_quick_arithmetic, worth_compiling
    from reaper.config.overrides import with_overrides
    from reaper.config.presets import PAPER
    from reaper.context import Context
    from reaper.engines.resources import keep_freed_memory
    from reaper.learning.short_term import ShortTerm
    from reaper.tasks.sequence import find_task

    keep_freed_memory()
    settings = with_overrides(PAPER, {"training.replay-capacity": 20_000, "training.learning-starts": WARM_UP})
    device = torch.device(device_name)
    use_quick_arithmetic(device)
    if device.type == "cuda":
        torch.set_num_threads(1)
        frames *= 20  # or it would be over before the clock has ticked
    context = Context(settings, 18, 0, ("benchmark",), device, compiles=worth_compiling(settings, device))
    short_term = ShortTerm(context, find_task(GAME))
    trainer = short_term.trainer
    trainer.run_to(2 * 6 * settings.training.num_envs)  # filled, and the first updates made
    seen, start = trainer.agent_steps, time.perf_counter()
    while trainer.agent_steps < seen + frames:
        trainer.step()
    rate = (trainer.agent_steps - seen) / (time.perf_counter() - start)
    short_term.close()
    return rate


SIDES: dict[str, Callable[[int, str], float]] = {
    "reaper": reaper_rate,
    "stable-baselines3": lambda frames, device: stable_baselines3_rate(frames, device, 1),
    "stable-baselines3, 4 environments": lambda frames, device: stable_baselines3_rate(frames, device, 4),
    "stable-baselines3, 64 environments": lambda frames, device: stable_baselines3_rate(frames, device, 64),
    "a DQN in one file": single_file_rate,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_600, help="agent steps timed on each side and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE", help="which to time")
    parser.add_argument("--side", choices=SIDES, help="time one side once, in this process")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments.frames, arguments.device)))
        return
    rates: dict[str, list[float]] = {side: [] for side in arguments.sides}
    common = ["--frames", str(arguments.frames), "--device", arguments.device]
    for number in range(arguments.rounds):
        for side, measured in rates.items():
            command = [sys.executable, __file__, "--side", side, *common]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            measured.append(float(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}: {side}: {measured[-1]:.0f} agent steps/s", flush=True)
    medians = {side: statistics.median(measured) for side, measured in rates.items()}
    ours = medians.get("reaper")
    for side, median in medians.items():
        beside = f"; reaper is {ours / median:.2f} times that" if ours else ""
        print(f"{side}: median {median:.0f} agent steps/s{beside}")


if __name__ == "__main__":
    main()
