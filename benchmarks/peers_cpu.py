"""Observed frames per second of a DQN at Atari size on the processor, against stable-baselines3.

Both sides learn ``ALE/Boxing-v5`` with the 18 joystick actions, a frame skip of 4, the Nature network and one update of
32 transitions per four observed frames. One observed frame is one decision of the agent: four frames of the emulator.
"""

import time
from typing import Final

try:
    import ale_py
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack
except ImportError as error:
    raise SystemExit(
        f"{error.name} is missing: pip install stable-baselines3 gymnasium ale-py opencv-python-headless"
    ) from None

GAME: Final = "ALE/Boxing-v5"
WARM_UP: Final = 400


def stable_baselines3_rate(frames: int, *, environments: int = 1) -> float:
    """Observed frames per second of stable-baselines3's DQN once learning has started.

    ``environments`` is 1 (its default) or 4; both give one update per four observed frames.
    """
    if environments not in (1, 4):
        raise ValueError(f"environments must be 1 or 4 to keep one update per four frames, got {environments}")
    gymnasium.register_envs(ale_py)
    games = VecFrameStack(
        make_atari_env(
            GAME,
            n_envs=environments,
            seed=0,
            # The wrapper skips and pools the frames itself, so the emulator must not.
            env_kwargs={"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": True},
            wrapper_kwargs={"terminal_on_life_loss": False},
        ),
        n_stack=4,
    )
    try:
        learner = DQN(
            "CnnPolicy",
            games,
            buffer_size=20_000,
            learning_starts=WARM_UP // 4,
            batch_size=32,
            train_freq=4 // environments,
            gradient_steps=1,
            target_update_interval=10_000,
            exploration_initial_eps=0.1,
            exploration_final_eps=0.1,
            device="cpu",
            seed=0,
        )
        learner.learn(WARM_UP)
        before, seen = learner._n_updates, learner.num_timesteps
        start = time.perf_counter()
        learner.learn(frames, reset_num_timesteps=False)
        seconds = time.perf_counter() - start
        observed = learner.num_timesteps - seen
        if learner._n_updates - before != observed // 4:
            raise RuntimeError(f"{learner._n_updates - before} updates for {observed} frames, not one per four")
        return observed / seconds
    finally:
        games.close()


def main() -> None:
    for environments in (1, 4):
        rate = stable_baselines3_rate(2_000, environments=environments)
        print(f"stable-baselines3, {environments} environment(s): {rate:.0f} observed frames/s")


if __name__ == "__main__":
    main()
