"""A plain DQN in one file, in the manner of CleanRL: what a researcher would write in an afternoon. It is here to be
measured beside (benchmarks/peers.py), so it is kept straightforward: one game, a NumPy ring of stacked states, eager
PyTorch, one update of 32 transitions per four agent steps.

    python benchmarks/single_file_dqn.py --device cpu --frames 2000
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

ACTIONS, BATCH, DISCOUNT, WARM_UP, TARGET_EVERY = 18, 32, 0.99, 400, 5_000


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
        nn.Linear(512, ACTIONS),
    )


class Ring:
    """Stacked states, as they come; a drawn state's successor is stored with it."""

    def __init__(self, size: int) -> None:
        self.states, self.successors = (np.zeros((size, 4, 84, 84), np.uint8) for _ in range(2))
        self.actions, self.rewards, self.ends = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size)
        self.size, self.filled = size, 0

    def add(self, state: np.ndarray, action: int, reward: float, end: bool, successor: np.ndarray) -> None:
        at = self.filled % self.size
        self.states[at], self.successors[at] = state, successor
        self.actions[at], self.rewards[at], self.ends[at] = action, reward, end
        self.filled += 1

    def draw(self, device: torch.device) -> list[torch.Tensor]:
        at = [random.randrange(min(self.filled, self.size)) for _ in range(BATCH)]
        arrays = (self.states[at], self.actions[at], self.rewards[at], self.ends[at], self.successors[at])
        return [torch.from_numpy(array).to(device) for array in arrays]


def learn(game: str, frames: int, device: torch.device) -> float:
    """Agent steps a second, once learning has started."""
    games = AtariVectorEnv(game, 1, full_action_space=True, use_fire_reset=False)
    network, target = new_network().to(device), new_network().to(device)
    target.load_state_dict(network.state_dict())
    optimiser, ring = torch.optim.Adam(network.parameters(), 1e-4), Ring(20_000)
    state, _ = games.reset(seed=0)
    start = 0.0
    for frame in range(WARM_UP + frames):
        if frame == WARM_UP:
            start = time.perf_counter()
        if frame < WARM_UP or random.random() < 0.1:
            action = random.randrange(ACTIONS)
        else:
            with torch.no_grad():
                action = int(network(torch.from_numpy(state).to(device) / 255).argmax())
        successor, reward, ended, _, _ = games.step(np.array([action]))
        ring.add(state[0], action, float(np.clip(reward[0], -1, 1)), bool(ended[0]), successor[0])
        state = successor
        if frame >= WARM_UP and frame % 4 == 0:
            states, actions, rewards, ends, successors = ring.draw(device)
            with torch.no_grad():
                goal = rewards + DISCOUNT * (1 - ends.float()) * target(successors / 255).max(1).values
            values = network(states / 255).gather(1, actions[:, None])[:, 0]
            optimiser.zero_grad()
            functional.smooth_l1_loss(values, goal).backward()
            optimiser.step()
        if frame % TARGET_EVERY == 0:
            target.load_state_dict(network.state_dict())
    if device.type == "cuda":
        torch.cuda.synchronize()
    rate = frames / (time.perf_counter() - start)
    games.close()
    return rate


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--game", default="boxing")
    parser.add_argument("--frames", type=int, default=2_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    print(json.dumps(learn(given.game, given.frames, torch.device(given.device))))
