"""Agents of Stable-Baselines3 to test with, random or trained a little, and environments with images for them."""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import A2C, DQN, PPO


class Images(gymnasium.Env):
    """Stacked frames (4, 84, 84) and six actions, as a wrapped Atari game has them. Rewards follow the pixels."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        return self._observe(), float(action == 2), bool(self.np_random.random() < 0.1), False, {}

    def _observe(self):
        return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)


BUDGETS = {  # so small that a few updates are made within a second
    DQN: {"learning_starts": 8, "buffer_size": 64, "batch_size": 8, "train_freq": 2},
    PPO: {"n_steps": 16, "batch_size": 8, "n_epochs": 1},
    A2C: {"n_steps": 8},
}


def sb3_agent(algorithm, policy, trained=False, **policy_kwargs):
    """An agent with other biases than zero, which SB3 starts with; `trained` for a few updates."""
    torch.manual_seed(0)
    env = Images() if policy == "CnnPolicy" else gymnasium.make("CartPole-v1")
    budget = BUDGETS.get(algorithm, BUDGETS[DQN])
    model = algorithm(policy, env, seed=0, device="cpu", policy_kwargs=policy_kwargs or None, **budget)
    if trained:
        return model.learn(32)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model


def sb3_outputs(model, observations):
    """What the agent itself computes: Q-values, or logits up to a constant (log-probabilities)."""
    tensor = torch.as_tensor(observations)
    with torch.no_grad():
        if hasattr(model.policy, "quantile_net"):
            return model.policy.quantile_net(tensor).mean(dim=1)
        if hasattr(model.policy, "q_net"):
            return model.policy.q_net(tensor)
        return model.policy.get_distribution(tensor).distribution.logits


def observations(model, count=1_000):
    rng, space = np.random.default_rng(1), model.observation_space
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (count, *space.shape), dtype=np.uint8)
    return rng.standard_normal((count, *space.shape)).astype(np.float32)
