"""Playing: epsilon-greedy actions, the stack of recent frames, and the scores of finished games."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from reaper.errors import UserError
from reaper.paper.settings import PlaySettings
from reaper.tasks.task import Step, VectorTask


def exploration(observed_frames: int, settings: PlaySettings) -> float:
    """Uniformly random until the replay has its start, then falling linearly to the last rate."""
    if observed_frames < settings.replay_start:
        return 1.0
    done = min(1.0, observed_frames / settings.exploration_frames)
    return settings.first_exploration + done * (settings.last_exploration - settings.first_exploration)


@torch.no_grad()
def choose_actions(
    network: torch.nn.Module | None, states: torch.Tensor, actions: int, epsilon: float, randomness: torch.Generator
) -> torch.Tensor:
    """Epsilon-greedy; without a network, uniformly random. (N, history, size, size) -> (N,) int64."""
    games, device = len(states), states.device
    random = torch.randint(actions, (games,), generator=randomness, device=device)
    explore = torch.rand(games, generator=randomness, device=device) < epsilon
    if network is None or epsilon >= 1.0:
        return random
    return torch.where(explore, random, network(states).argmax(dim=1))


class Moment(NamedTuple):
    """One step of all games, as the replay takes it."""

    frames: torch.Tensor  # (games, size, size) uint8: the newest frame when the action was chosen
    ages: torch.Tensor  # (games,) frames since each game's start
    actions: torch.Tensor
    rewards: torch.Tensor  # clipped to [-1, 1]
    terminals: torch.Tensor  # a lost life ends the return too
    cut_off: torch.Tensor
    keep: torch.Tensor  # false where the step was only a reset


class Player:
    """Plays a task with a stack of recent frames, keeping the scores of the games that finish.

    Games cannot be frozen, but they can be repeated: the same seed and the same actions bring back the same moment. So
    a player writes down its actions from the last seam on, and taking up a game again means playing it up to here, at
    the emulator's speed.
    """

    def __init__(self, task: VectorTask, history: int, actions: int, device: torch.device | str) -> None:
        self.task, self.history, self.actions, self.device = task, history, actions, torch.device(device)
        self.scores: list[float] = []
        self.running = np.zeros(task.games)
        self.seed: int | None = None  # of the games in play
        self.log: list[np.ndarray] = []  # their actions

    def begin(self, seed: int) -> None:
        """Starts every game anew, with its first frame in place of the frames before it."""
        self.seed, self.log = seed, []
        first = torch.from_numpy(self.task.reset(seed)).to(self.device)
        self.stack = first[:, None].repeat(1, self.history, 1, 1)
        self.ages = torch.zeros(self.task.games, dtype=torch.int64, device=self.device)
        self.running[:] = 0

    def send(self, network: torch.nn.Module | None, epsilon: float, randomness: torch.Generator) -> None:
        """Chooses actions and sets the games moving; the learner may work until `receive`."""
        self.chosen = choose_actions(network, self.stack, self.actions, epsilon, randomness)
        actions = self.chosen.cpu().numpy()
        self.log.append(actions.astype(np.int16))
        self.task.send(actions)

    def advance(self) -> Step:
        """Waits for the games and moves the stacks on."""
        step = self.task.receive()
        only_reset = torch.from_numpy(step.only_reset).to(self.device)
        newest = torch.from_numpy(step.frames).to(self.device)[:, None]
        rolled = torch.cat([self.stack[:, 1:], newest], dim=1)
        self.stack = torch.where(only_reset[:, None, None, None], newest.expand_as(rolled), rolled)
        self.ages = torch.where(only_reset, 0, self.ages + 1)
        return step

    def receive(self) -> Moment:
        """Waits for the games and returns the step as a replay takes it."""
        frames, ages = self.stack[:, -1], self.ages
        step = self.advance()
        self.running += step.rewards
        for game in np.flatnonzero(step.ended):
            self.scores.append(float(self.running[game]))
            self.running[game] = 0
        return Moment(
            frames,
            ages,
            self.chosen,
            torch.from_numpy(np.clip(step.rewards, -1.0, 1.0)).to(self.device, torch.float32),
            torch.from_numpy((step.ended & ~step.cut_off) | step.lost_life).to(self.device),
            torch.from_numpy(step.cut_off).to(self.device),
            torch.from_numpy(~step.only_reset).to(self.device),
        )

    def rest(self) -> None:
        """Leaves the games; they are not taken up again."""
        self.seed, self.log = None, []

    def state(self) -> dict[str, Any]:
        if self.seed is None:
            return {"seed": None}
        log = torch.from_numpy(np.stack(self.log)) if self.log else torch.zeros((0, self.task.games), dtype=torch.int16)
        return {
            "seed": self.seed,
            "log": log,
            "stack": self.stack,
            "ages": self.ages,
            "running": torch.from_numpy(self.running.copy()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Plays the games up to where they were."""
        if state["seed"] is None:
            return
        self.begin(state["seed"])
        for actions in state["log"].numpy():
            self.log.append(actions)
            self.task.send(actions.astype(np.int64))
            self.advance()
        if not torch.equal(self.stack.cpu(), state["stack"]):
            raise UserError(
                f"{self.task.name} does not repeat itself: the same seed and actions led to other frames, so its games "
                "cannot be taken up again; delete the stage's folder under unfinished/ to start it anew"
            )
        self.running[:] = state["running"].numpy()

    def take_scores(self) -> list[float]:
        """The scores of the games finished since the last call."""
        scores, self.scores = self.scores, []
        return scores
