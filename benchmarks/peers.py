"""Agent steps per second of short-term learning at Atari size, compared with stable-baselines3 and a one-file DQN.

All learn Boxing with the 18 joystick actions, a frame skip of 4, the same network and one update of 32 transitions per
four agent steps. Each run is a process of its own, so that none changes the threads or the allocator of another. The
implementations take turns, and their medians are compared.

    make bench
    python benchmarks/peers.py --device cuda --steps 4000
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


def sb3_envs(num_envs: int) -> Any:
    """Environments for stable-baselines3: with its own wrappers if OpenCV is installed and there are few of them, else
    ale-py's C++ vector environment, which is faster."""
    import ale_py
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecFrameStack  # pyright: ignore[reportMissingImports]

    gymnasium.register_envs(ale_py)
    try:
        import cv2  # noqa: F401  # pyright: ignore
    except ImportError:
        return _vector_env(num_envs)
    if num_envs > 8:
        return _vector_env(num_envs)
    # The wrapper skips and max-pools frames itself, so the emulator must not.
    emulator = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": True}
    wrapper = {"terminal_on_life_loss": False}
    envs = make_atari_env(GAME, n_envs=num_envs, seed=0, env_kwargs=emulator, wrapper_kwargs=wrapper)
    return VecFrameStack(envs, n_stack=4)


def _vector_env(num_envs: int) -> Any:
    import numpy as np
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]

    class AtariVecEnv(VecEnv):
        def __init__(self) -> None:
            self.emulators = AtariVectorEnv(ROM, num_envs, full_action_space=True, use_fire_reset=False)
            super().__init__(num_envs, Box(0, 255, (4, 84, 84), np.uint8), Discrete(18))

        def reset(self) -> Any:
            return self.emulators.reset(seed=0)[0]

        def step_async(self, actions: Any) -> None:
            self.emulators.send(actions)

        def step_wait(self) -> Any:
            observations, rewards, terminated, truncated, _ = self.emulators.recv()
            last = zip(observations, terminated, strict=True)
            infos = [{"terminal_observation": observation} if end else {} for observation, end in last]
            return observations, rewards, terminated | truncated, infos

        def close(self) -> None:
            self.emulators.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [None] * num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * num_envs

    return AtariVecEnv()


def sb3_rate(steps: int, device: str, num_envs: int) -> float:
    """The DQN of stable-baselines3 once learning has started, with the same ratio of updates for any `num_envs`."""
    try:
        from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SystemExit(f"{error.name} is missing: pip install 'reaper-rl[peers]'") from None
    learner = DQN(
        "CnnPolicy",
        sb3_envs(num_envs),
        buffer_size=20_000,
        learning_starts=WARM_UP // 4,
        batch_size=32,
        train_freq=max(4 // num_envs, 1),
        gradient_steps=max(num_envs // 4, 1),
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        device=device,
        seed=0,
    )
    learner.learn(WARM_UP)
    updates, before, start = learner._n_updates, learner.num_timesteps, time.perf_counter()
    learner.learn(steps, reset_num_timesteps=False)
    seconds, made = time.perf_counter() - start, learner.num_timesteps - before
    if learner._n_updates - updates != made // 4:
        raise RuntimeError(f"{learner._n_updates - updates} updates for {made} agent steps, not one per four")
    return made / seconds


def single_file_rate(steps: int, device: str) -> float:
    import torch
    from single_file_dqn import train

    return train(ROM, steps, torch.device(device))


def reaper_rate(steps: int, device_name: str) -> float:
    """Our short-term learning with the paper's settings (64 environments), once learning has started."""
    import torch

    from reaper.compute.compilation import prepare_torch
    from reaper.config.overrides import with_overrides
    from reaper.config.presets import PAPER
    from reaper.context import Context, compile_options
    from reaper.engines.resources import keep_freed_memory
    from reaper.learning.short_term import ShortTerm
    from reaper.tasks.sequence import find_task

    keep_freed_memory()
    settings = with_overrides(PAPER, {"training.replay-capacity": 20_000, "training.learning-starts": WARM_UP})
    device = torch.device(device_name)
    prepare_torch(device)
    if device.type == "cuda":
        torch.set_num_threads(1)
        steps *= 20  # it would be too short to time
    context = Context(settings, 18, 0, ("benchmark",), device, **compile_options(settings, device))
    short_term = ShortTerm(context, find_task(GAME))
    trainer = short_term.trainer
    trainer.train_to(2 * 6 * settings.training.num_envs)  # fills the replay and makes the first updates
    before, start = trainer.agent_steps, time.perf_counter()
    while trainer.agent_steps < before + steps:
        trainer.step()
    rate = (trainer.agent_steps - before) / (time.perf_counter() - start)
    short_term.close()
    return rate


IMPLEMENTATIONS: dict[str, Callable[[int, str], float]] = {
    "reaper": reaper_rate,
    "stable-baselines3": lambda steps, device: sb3_rate(steps, device, 1),
    "stable-baselines3, 4 environments": lambda steps, device: sb3_rate(steps, device, 4),
    "stable-baselines3, 64 environments": lambda steps, device: sb3_rate(steps, device, 64),
    "single-file DQN": single_file_rate,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_600, help="agent steps timed per implementation and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=IMPLEMENTATIONS,
        default=list(IMPLEMENTATIONS),
        metavar="NAME",
        help="which to time",
    )
    parser.add_argument("--in-process", choices=IMPLEMENTATIONS, metavar="NAME", help="time one once, in this process")
    arguments = parser.parse_args()
    if arguments.in_process:
        print(json.dumps(IMPLEMENTATIONS[arguments.in_process](arguments.steps, arguments.device)))
        return
    rates: dict[str, list[float]] = {name: [] for name in arguments.only}
    common = ["--steps", str(arguments.steps), "--device", arguments.device]
    for number in range(arguments.rounds):
        for name, measured in rates.items():
            command = [sys.executable, __file__, "--in-process", name, *common]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            measured.append(float(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}: {name}: {measured[-1]:.0f} agent steps/s", flush=True)
    medians = {name: statistics.median(measured) for name, measured in rates.items()}
    ours = medians.get("reaper")
    for name, median in medians.items():
        comparison = f"; reaper is {ours / median:.2f} times that" if ours else ""
        print(f"{name}: median {median:.0f} agent steps/s{comparison}")


if __name__ == "__main__":
    main()
