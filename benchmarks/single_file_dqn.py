"""A plain DQN in one file, in the manner of CleanRL: a baseline for benchmarks/peers.py. One
environment, a NumPy replay buffer of stacked states, eager PyTorch, one update of 32 transitions per four agent steps.

    python benchmarks/single_file_dqn.py --device cpu --steps 2000
"""

from __future__ import annotations

import argparse
import json
import random
import time

import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv
from torch import nn
from torch.nn import functional

NUM_ACTIONS, BATCH_SIZE, DISCOUNT, LEARNING_STARTS, TARGET_UPDATE_INTERVAL = 18, 32, 0.99, 400, 5_000


def new_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, NUM_ACTIONS),
    )


class ReplayBuffer:
    """Transitions of stacked states, each with its next state."""

    def __init__(self, size: int) -> None:
        self.states, self.next_states = (np.zeros((size, 4, 84, 84), np.uint8) for _ in range(2))
        self.actions, self.rewards, self.dones = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size)
        self.size, self.added = size, 0

    def add(self, state: np.ndarray, action: int, reward: float, done: bool, next_state: np.ndarray) -> None:
        index = self.added % self.size
        self.states[index], self.next_states[index] = state, next_state
        self.actions[index], self.rewards[index], self.dones[index] = action, reward, done
        self.added += 1

    def sample(self, device: torch.device) -> list[torch.Tensor]:
        indices = [random.randrange(min(self.added, self.size)) for _ in range(BATCH_SIZE)]
        fields = (self.states, self.actions, self.rewards, self.dones, self.next_states)
        return [torch.from_numpy(values[indices]).to(device) for values in fields]


def train(game: str, steps: int, device: torch.device) -> float:
    """Agent steps per second, once learning has started."""
    env = AtariVectorEnv(game, 1, full_action_space=True, use_fire_reset=False)
    network, target = new_network().to(device), new_network().to(device)
    target.load_state_dict(network.state_dict())
    optimiser, replay = torch.optim.Adam(network.parameters(), 1e-4), ReplayBuffer(20_000)
    state, _ = env.reset(seed=0)
    start = 0.0
    for step in range(LEARNING_STARTS + steps):
        if step == LEARNING_STARTS:
            start = time.perf_counter()
        if step < LEARNING_STARTS or random.random() < 0.1:
            action = random.randrange(NUM_ACTIONS)
        else:
            with torch.no_grad():
                action = int(network(torch.from_numpy(state).to(device) / 255).argmax())
        next_state, reward, terminated, _, _ = env.step(np.array([action]))
        replay.add(state[0], action, float(np.clip(reward[0], -1, 1)), bool(terminated[0]), next_state[0])
        state = next_state
        if step >= LEARNING_STARTS and step % 4 == 0:
            states, actions, rewards, dones, next_states = replay.sample(device)
            with torch.no_grad():
                targets = rewards + DISCOUNT * (1 - dones.float()) * target(next_states / 255).max(1).values
            values = network(states / 255).gather(1, actions[:, None])[:, 0]
            optimiser.zero_grad()
            functional.smooth_l1_loss(values, targets).backward()
            optimiser.step()
        if step % TARGET_UPDATE_INTERVAL == 0:
            target.load_state_dict(network.state_dict())
    if device.type == "cuda":
        torch.cuda.synchronize()
    rate = steps / (time.perf_counter() - start)
    env.close()
    return rate


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--game", default="boxing")
    parser.add_argument("--steps", type=int, default=2_000, help="agent steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    print(json.dumps(train(arguments.game, arguments.steps, torch.device(arguments.device))))
