"""How fast copies of a slow Gymnasium environment are stepped: in one thread, by our processes, and by SB3's.

    python benchmarks/stepping.py [--num-envs 16] [--milliseconds 2] [--waits] [--rounds 7]

The three take turns of half a second, so that other load on the machine disturbs all of them; medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from slow_env import SlowEnv
from stable_baselines3.common.vec_env import SubprocVecEnv

from reaper.tasks.stepping import choose_workers, open_stepper

NAME = "benchmark/Slow-v0"
SECONDS = 0.5


def rate(step: Callable[[np.ndarray], object], num_envs: int) -> float:
    """Environment steps per second."""
    actions, steps, start = np.zeros(num_envs, dtype=np.int64), 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        step(actions)
        steps += num_envs
    return steps / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--milliseconds", type=float, default=2.0, help="that one step takes")
    parser.add_argument("--waits", action="store_true", help="the environment waits instead of computing")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    gymnasium.register(NAME, "slow_env:SlowEnv", kwargs={"milliseconds": options.milliseconds, "waits": options.waits})
    num_envs, workers = options.num_envs, choose_workers(NAME, options.num_envs)
    ours = {
        "one thread": open_stepper(NAME, num_envs, 0),
        f"{workers} processes": open_stepper(NAME, num_envs, workers),
    }
    theirs = SubprocVecEnv([lambda: SlowEnv(options.milliseconds, options.waits)] * num_envs)

    def stepped(envs: object) -> Callable[[np.ndarray], object]:
        return lambda actions: (envs.send(actions), envs.receive())  # type: ignore[attr-defined]

    ways = {name: stepped(envs) for name, envs in ours.items()} | {"SubprocVecEnv": theirs.step}
    for envs in ours.values():
        envs.reset(0)
    theirs.reset()
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, step in ways.items():
            rates[name].append(rate(step, num_envs))
    for envs in (*ours.values(), theirs):
        envs.close()
    alone = statistics.median(rates["one thread"])
    for name, measured in rates.items():
        median = statistics.median(measured)
        print(f"{name:16} {median:8,.0f} steps/s  {median / alone:5.2f} x one thread")


if __name__ == "__main__":
    main()
