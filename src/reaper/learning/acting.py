"""Playing: epsilon-greedy actions, the stack of recent frames, and the scores of finished games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from reaper.checkpoints import Parts
from reaper.errors import UserError
from reaper.learning.compiling import answer
from reaper.learning.recording import recorded
from reaper.paper.settings import PlaySettings
from reaper.randomness import Stream
from reaper.tasks.task import Step, VectorTask


def exploration(observed_frames: int, settings: PlaySettings) -> float:
    """Uniformly random until the replay has its start, then falling linearly to the last rate."""
    if observed_frames < settings.replay_start:
        return 1.0
    done = min(1.0, observed_frames / settings.exploration_frames)
    return settings.first_exploration + done * (settings.last_exploration - settings.first_exploration)


@torch.no_grad()
def epsilon_greedy(
    values_of: Callable[[torch.Tensor], torch.Tensor] | None,
    states: torch.Tensor,
    actions: int,
    epsilon: float | torch.Tensor,
    randomness: torch.Generator,
) -> torch.Tensor:
    """Epsilon-greedy actions; without values, uniformly random ones. (N, history, size, size) -> (N,) int64."""
    games, device = len(states), states.device
    random = torch.randint(actions, (games,), generator=randomness, device=device)
    explore = torch.rand(games, generator=randomness, device=device) < epsilon
    return random if values_of is None else torch.where(explore, random, values_of(states).argmax(dim=1))


class Moment(NamedTuple):
    """One step of all games, as the replay takes it."""

    frames: torch.Tensor  # (games, size, size) uint8: the newest frame when the action was chosen
    ages: torch.Tensor  # (games,) frames since each game's start
    actions: torch.Tensor
    rewards: torch.Tensor  # clipped to [-1, 1]
    terminals: torch.Tensor  # a lost life ends the return too
    cut_off: torch.Tensor
    keep: torch.Tensor  # false where the step was only a reset


class Inbox:
    """Where a step's arrays arrive: at once what the next actions depend on, later what came of the last ones. On their
    way to a GPU they pass through pinned memory, so that copying them does not wait for the updates that are still
    running there; the player's next choice does, before they are overwritten."""

    def __init__(self, games: int, size: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        seen = torch.zeros(games * (size * size + 1), dtype=torch.uint8, pin_memory=pinned)
        outcome = torch.zeros((3, games), pin_memory=pinned)  # as one array: every copy costs a call
        self.host = (seen, outcome)
        self.there = (seen.to(device), outcome.to(device))  # the same tensors where the device is the CPU
        shape, end = (games, size, size), games * size * size
        self._frames, self._resets = seen.numpy()[:end].reshape(shape), seen.numpy()[end:]
        self.frames, self.resets = self.there[0][:end].view(shape), self.there[0][end:]

    def put_seen(self, frames: np.ndarray, only_reset: np.ndarray) -> None:
        self._frames[...] = frames
        self._resets[...] = only_reset
        self._hand_over(0)

    def put_outcome(self, *arrays: np.ndarray) -> None:
        """Rewards, terminals and cut-offs."""
        for row, array in zip(self.host[1].numpy(), arrays, strict=True):
            row[...] = array
        self._hand_over(1)

    def _hand_over(self, part: int) -> None:
        if self.there[part] is not self.host[part]:
            self.there[part].copy_(self.host[part], non_blocking=True)


class Player:
    """Plays a task with a stack of recent frames, keeping the scores of the games that finish.

    Games cannot be frozen, but they can be repeated: the same seed and the same actions bring back the same moment. So
    a player writes down its actions from the last seam on, and taking up a game again means playing it up to here, at
    the emulator's speed.
    """

    def __init__(
        self,
        task: VectorTask,
        history: int,
        actions: int,
        device: torch.device | str,
        ask: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor] = answer,
    ) -> None:
        self.task, self.history, self.actions, self.device = task, history, actions, torch.device(device)
        self.ask = ask  # how a network is asked; it may be compiled
        self.scores: list[float] = []
        self.running = np.zeros(task.games)
        size = task.frame_size
        self.stack = torch.zeros((task.games, history, size, size), dtype=torch.uint8, device=device)
        self.ages = torch.zeros(task.games, dtype=torch.int64, device=device)
        self.chosen = torch.zeros(task.games, dtype=torch.int64, device=device)
        self.outbox = torch.zeros(task.games, dtype=torch.int64, pin_memory=self.device.type == "cuda")
        self.inbox = Inbox(task.games, size, self.device)
        self.step: Step | None = None  # the last one, until it is settled
        # What the replay files with it: the newest frame and the ages from before, and whether it was only a reset.
        self.frame_before = torch.zeros((task.games, size, size), dtype=torch.uint8, device=device)
        self.ages_before, self.acted = self.ages.clone(), self.chosen.clone()
        self.keep = torch.zeros(task.games, dtype=torch.bool, device=device)
        self.records = self.device.type == "cuda"
        self.epsilon = torch.zeros((), device=device)
        self._choose: Callable[[], None] | None = None  # the recorded choice of actions, and whose it is
        self._chooser: torch.nn.Module | None = None
        self.seed: int | None = None  # of the games in play
        self.log: list[np.ndarray] = []  # their actions

    def begin(self, seed: int) -> None:
        """Starts every game anew, with its first frame in place of the frames before it."""
        self.seed, self.log = seed, []
        self.stack.copy_(torch.from_numpy(self.task.reset(seed))[:, None].expand_as(self.stack))
        self.ages.zero_()
        self.running[:] = 0

    def send(self, network: torch.nn.Module | None, epsilon: float, randomness: Stream) -> None:
        """Chooses actions and sets the games moving; the learner may work until `receive`."""
        if self.records and network is not None:
            self._choose_recorded(network, epsilon, randomness)
        else:
            # The network is not asked where its answer would not count.
            values_of = (lambda states: self.ask(network, states)) if network is not None and epsilon < 1.0 else None
            self.chosen.copy_(epsilon_greedy(values_of, self.stack, self.actions, epsilon, randomness))
            self.outbox.copy_(self.chosen)
        actions = self.outbox.numpy()
        self.task.send(actions)
        self.log.append(actions.astype(np.int16))

    def _choose_recorded(self, network: torch.nn.Module, epsilon: float, randomness: Stream) -> None:
        self.epsilon.fill_(epsilon)
        if self._choose is None or self._chooser is not network:

            def work() -> None:
                values_of = lambda states: self.ask(network, states)  # noqa: E731
                self.chosen.copy_(epsilon_greedy(values_of, self.stack, self.actions, self.epsilon, randomness))
                self.outbox.copy_(self.chosen, non_blocking=True)

            self._choose, self._chooser = recorded(work, Parts(acting=randomness)), network
        self._choose()
        torch.cuda.current_stream().synchronize()

    def receive(self) -> Step:
        """Waits for the games and hands to the device what the next actions depend on."""
        self.step = self.task.receive()
        self.inbox.put_seen(self.step.frames, self.step.only_reset)
        return self.step

    def take_in(self) -> None:
        """Moves the stacks on. Only tensors, all in place: on a GPU this is recorded once and replayed."""
        newest, only_reset = self.inbox.frames, self.inbox.resets != 0
        self.frame_before.copy_(self.stack[:, -1])
        self.ages_before.copy_(self.ages)
        self.acted.copy_(self.chosen)
        self.keep.copy_(~only_reset)
        rolled = torch.cat([self.stack[:, 1:], newest[:, None]], dim=1)
        self.stack.copy_(torch.where(only_reset[:, None, None, None], newest[:, None].expand_as(rolled), rolled))
        self.ages.copy_(torch.where(only_reset, 0, self.ages + 1))

    def settle(self) -> None:
        """Counts the scores of the last step and hands its outcome to the device. Nothing that the next actions depend
        on, so it may follow their `send`."""
        step, self.step = self.step, None
        if step is None:
            return
        terminals = (step.ended & ~step.cut_off) | step.lost_life
        self.inbox.put_outcome(step.rewards, terminals, step.cut_off)
        self.running += step.rewards
        for game in np.flatnonzero(step.ended):
            self.scores.append(float(self.running[game]))
            self.running[game] = 0

    def moment(self) -> Moment:
        """The step that was settled, as a replay takes it; only tensors, too."""
        rewards, terminals, cut_off = self.inbox.there[1]
        return Moment(
            self.frame_before,
            self.ages_before,
            self.acted,
            rewards.clamp(-1.0, 1.0),
            terminals != 0,
            cut_off != 0,
            self.keep,
        )

    def rest(self) -> None:
        """Leaves the games; they are not taken up again."""
        self.seed, self.log, self.step = None, [], None

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
            self.receive()
            self.take_in()
        self.step = None  # its score was counted then
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
