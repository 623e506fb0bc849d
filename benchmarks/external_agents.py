"""From agents of Stable-Baselines3 to one network: trains the agents, consolidates them, and writes a results page.

    python benchmarks/external_agents.py dqn-vectors --out runs/dqn-vectors --page docs/results/sb3-dqn-vectors.md

Studies: `dqn-vectors` and `ppo-vectors` (CartPole, Acrobot, MountainCar), `dqn-cnn-arcade` (Catch and Dodge as images).
Other options go to `reaper consolidate`: `--fraction 0.4`. Agents that are there already are not trained again, and a
consolidation that was interrupted resumes. Everything is seeded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from reaper import make_env
from reaper.cli.main import main as reaper

STATISTICS = "vec_normalize.npz"
CNN_PIXELS = 36  # the smallest side that SB3's CNN can see; arcade games have 16


@dataclass(frozen=True)
class Training:
    """How Stable-Baselines3 trains the agent of one task."""

    settings: Mapping[str, Any]
    agent_steps: int = 100_000  # at most
    num_envs: int = 4
    normalise: bool = False  # by VecNormalize


@dataclass(frozen=True)
class Study:
    """Agents of one algorithm, in the order in which they are consolidated."""

    algorithm: type[BaseAlgorithm]
    tasks: Mapping[str, Training]
    policy: str = "MlpPolicy"
    common: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[[str], gymnasium.Env] = gymnasium.make


class Enlarged(gymnasium.ObservationWrapper):
    """Images (frames, height, width) enlarged to what SB3's CNN can see: the nearest pixel."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        assert env.observation_space.shape is not None
        frames, *sides = env.observation_space.shape
        places = [np.floor((np.arange(CNN_PIXELS) + 0.5) * side / CNN_PIXELS).astype(int) for side in sides]
        self.places = np.ix_(np.arange(frames), *places)
        self.observation_space = gymnasium.spaces.Box(0, 255, (frames, CNN_PIXELS, CNN_PIXELS), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[self.places]


def make_arcade(task: str) -> gymnasium.Env:
    return Enlarged(make_env(task))


# Mean return of ten episodes at which training stops: for classic control, what Gymnasium calls solved.
ENOUGH = {"CartPole-v1": 475, "Acrobot-v1": -100, "MountainCar-v0": -110, "catch": 22, "dodge": 20}
DEFAULTS = {DQN: {"learning_starts": 1_000, "buffer_size": 50_000}, PPO: {}}

STUDIES = {
    "dqn-vectors": Study(
        DQN,
        {
            "CartPole-v1": Training(
                {"learning_rate": 1e-3, "batch_size": 64, "target_update_interval": 500, "gradient_steps": 2}
                | {"exploration_fraction": 0.2, "exploration_final_eps": 0.05}
            ),
            "Acrobot-v1": Training(
                {"learning_rate": 6.3e-4, "batch_size": 128, "target_update_interval": 250, "gradient_steps": 2}
                | {"exploration_fraction": 0.12, "exploration_final_eps": 0.1}
            ),
            "MountainCar-v0": Training(
                {"learning_rate": 4e-3, "batch_size": 128, "target_update_interval": 600}
                | {"exploration_fraction": 0.5, "exploration_final_eps": 0.07, "gamma": 0.98}
                | {"train_freq": 16, "gradient_steps": 8, "policy_kwargs": {"net_arch": [256, 256]}},
                200_000,  # with half the steps and less exploration it depends on chance whether the goal is ever seen
                num_envs=1,
            ),
        },
        common={"train_freq": 1, "policy_kwargs": {"net_arch": [128, 128]}},
    ),
    "ppo-vectors": Study(
        PPO,
        {
            "CartPole-v1": Training(
                {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20}, num_envs=8
            ),
            "Acrobot-v1": Training(
                {"n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4}, 300_000, num_envs=16, normalise=True
            ),
            "MountainCar-v0": Training(
                {"n_steps": 16, "gae_lambda": 0.98, "n_epochs": 4}, 600_000, num_envs=16, normalise=True
            ),
        },
    ),
    "dqn-cnn-arcade": Study(
        DQN,
        {
            task: Training({"learning_rate": 5e-4, "gamma": 0.97, "exploration_fraction": 0.3})
            for task in ("catch", "dodge")
        },
        policy="CnnPolicy",
        common={"target_update_interval": 1_000, "train_freq": 1, "gradient_steps": 1},
        make=make_arcade,
    ),
}


class SaveStatistics(BaseCallback):
    """Saves what VecNormalize subtracts and divides by, as plain arrays; its own file would be a pickle."""

    def __init__(self, envs: VecNormalize, path: Path) -> None:
        super().__init__()
        self.envs, self.path = envs, path

    def _on_step(self) -> bool:
        rms = self.envs.obs_rms
        assert isinstance(rms, RunningMeanStd)
        np.savez(self.path, mean=rms.mean, var=rms.var, epsilon=self.envs.epsilon, clip_obs=self.envs.clip_obs)
        return True


def train(study: Study, task: str, folder: Path, seed: int) -> None:
    """Trains one agent; the file that remains is that of its best evaluation. The folder appears when it is done."""
    training, part = study.tasks[task], folder.with_name(f"{task}.part")

    def make_envs(count: int, seed: int) -> VecEnv:
        return make_vec_env(lambda: study.make(task), count, seed=seed)

    envs, evaluation = make_envs(training.num_envs, seed), make_envs(10, seed + 1_000)
    at_best: list[BaseCallback] = [StopTrainingOnRewardThreshold(ENOUGH[task], verbose=0)]
    if training.normalise:
        envs, evaluation = VecNormalize(envs), VecNormalize(evaluation, norm_reward=False, training=False)
        part.mkdir(parents=True, exist_ok=True)
        at_best.insert(0, SaveStatistics(envs, part / STATISTICS))
    best = EvalCallback(
        evaluation,
        eval_freq=5_000 // training.num_envs,
        n_eval_episodes=10,
        best_model_save_path=str(part),
        callback_on_new_best=CallbackList(at_best),
        verbose=0,
    )
    settings = {**DEFAULTS[study.algorithm], **study.common, **training.settings}
    model = study.algorithm(study.policy, envs, seed=seed, device="cpu", **settings)
    model.learn(training.agent_steps, callback=best)
    part.rename(folder)
    print(f"{task}: best evaluation {best.best_mean_reward:.1f}, {model.num_timesteps:,} agent steps", flush=True)


def source(folder: Path) -> str:
    """A trained agent, as `--teacher` takes it."""
    statistics = folder / STATISTICS
    return f"sb3:{folder / 'best_model.zip'}" + (f",{statistics}" if statistics.exists() else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--out", type=Path, required=True, help="folder for agents, run and report")
    parser.add_argument("--page", type=Path, help="also write the report as this Markdown file")
    parser.add_argument("--seed", type=int, default=20, help="of the agents and of the consolidation")
    arguments, others = parser.parse_known_args()
    study, agents, start = STUDIES[arguments.study], arguments.out / "agents", time.perf_counter()
    for task in study.tasks:
        if not (agents / task).exists():
            train(study, task, agents / task, arguments.seed)
    trained = time.perf_counter()
    teachers = [word for task in study.tasks for word in ("--teacher", f"{task}={source(agents / task)}")]
    options = ["--seeds", str(arguments.seed), "--device", "cpu", "--quiet", *others]
    code = reaper(["consolidate", "RePR", "no-reh", *teachers, "--out", str(arguments.out / "run"), *options])
    if not code and arguments.page:
        code = reaper(["report", str(arguments.out / "run"), "--no-videos", "--markdown", str(arguments.page)])
    done = time.perf_counter()
    print(f"training the agents: {trained - start:,.0f} s; consolidation and reports: {done - trained:,.0f} s")
    sys.exit(code)


if __name__ == "__main__":
    main()
