"""Observed frames a second of short-term learning at Atari size on the processor, beside stable-baselines3's DQN.

Both learn ALE/Boxing-v5 with the 18 joystick actions, a frame skip of 4, the same network and one update of 32
transitions per four observed frames. The two take turns in processes of their own, so that neither tunes the other's
memory or threads, and the medians are compared.

    make bench
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

GAME = "ALE/Boxing-v5"
WARM_UP = 400


def stable_baselines3_rate(frames: int, environments: int = 1) -> float:
    """stable-baselines3's DQN once learning has started; 1 environment is its default, 4 keep the same ratio."""
    try:
        import ale_py
        import gymnasium
        from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]
        from stable_baselines3.common.env_util import make_atari_env  # pyright: ignore[reportMissingImports]
        from stable_baselines3.common.vec_env import VecFrameStack  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SystemExit(f"{error.name} is missing: pip install 'reaper-rl[peers]'") from None
    gymnasium.register_envs(ale_py)
    # The wrapper skips and pools the frames itself, so the emulator must not.
    emulator = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": True}
    wrapper = {"terminal_on_life_loss": False}
    games = make_atari_env(GAME, n_envs=environments, seed=0, env_kwargs=emulator, wrapper_kwargs=wrapper)
    learner = DQN(
        "CnnPolicy",
        VecFrameStack(games, n_stack=4),
        buffer_size=20_000,
        learning_starts=WARM_UP // 4,
        batch_size=32,
        train_freq=4 // environments,
        gradient_steps=1,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        device="cpu",
        seed=0,
    )
    learner.learn(WARM_UP)
    updates, seen, start = learner._n_updates, learner.num_timesteps, time.perf_counter()
    learner.learn(frames, reset_num_timesteps=False)
    seconds, observed = time.perf_counter() - start, learner.num_timesteps - seen
    if learner._n_updates - updates != observed // 4:
        raise RuntimeError(f"{learner._n_updates - updates} updates for {observed} frames, not one per four")
    return observed / seconds


def reaper_rate(frames: int) -> float:
    """Our short-term learning with the paper's settings (64 games at once), once learning has started."""
    import torch

    from reaper.engines.local import keep_freed_memory
    from reaper.learning.compiling import worth_compiling
    from reaper.learning.context import Context
    from reaper.learning.short_term import ShortTerm
    from reaper.scales import PAPER, with_overrides
    from reaper.tasks.sequence import find_task

    keep_freed_memory()
    settings = with_overrides(PAPER, {"play.replay-frames": 20_000, "play.replay-start": WARM_UP})
    device = torch.device("cpu")
    context = Context(settings, 18, 0, ("benchmark",), device, compiles=worth_compiling(settings, device))
    short_term = ShortTerm(context, find_task(GAME))
    practice = short_term.practice
    practice.run_to(2 * 6 * settings.play.games)  # filled, and the first updates made
    seen, start = practice.observed_frames, time.perf_counter()
    while practice.observed_frames < seen + frames:
        practice.step()
    rate = (practice.observed_frames - seen) / (time.perf_counter() - start)
    short_term.close()
    return rate


SIDES = {
    "reaper": lambda frames: reaper_rate(frames),
    "stable-baselines3": lambda frames: stable_baselines3_rate(frames),
    "stable-baselines3, 4 environments": lambda frames: stable_baselines3_rate(frames, environments=4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_600, help="observed frames timed on each side and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help="time one side once, in this process")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments.frames)))
        return
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(arguments.rounds):
        for side, measured in rates.items():
            command = [sys.executable, __file__, "--side", side, "--frames", str(arguments.frames)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            measured.append(float(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}: {side}: {measured[-1]:.0f} observed frames/s", flush=True)
    ours = statistics.median(rates["reaper"])
    for side, measured in rates.items():
        median = statistics.median(measured)
        print(f"{side}: median {median:.0f} observed frames/s; reaper is {ours / median:.2f} times that")


if __name__ == "__main__":
    main()
