"""Playing: epsilon-greedy actions, the stack of recent frames, and the scores of finished games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from reaper.compute.compilation import forward
from reaper.compute.cuda_graph import capture_graph
from reaper.compute.host_buffers import OBSERVATIONS, OUTCOMES, HostBuffers
from reaper.compute.stream_gate import StreamGate, new_stream_gate
from reaper.config.settings import TrainingSettings
from reaper.errors import UserError
from reaper.memory.replay import Transition
from reaper.tasks.task import Step, VectorTask

Ask = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]  # how a network is asked for its values of states


def exploration(agent_steps: int, settings: TrainingSettings) -> float:
    """Uniformly random until the replay has its start, then falling linearly to the last rate."""
    if agent_steps < settings.learning_starts:
        return 1.0
    done = min(1.0, agent_steps / settings.exploration_steps)
    return settings.initial_epsilon + done * (settings.final_epsilon - settings.initial_epsilon)


class Drawn(NamedTuple):
    """For every game a uniformly random action, and whether it is to be taken in place of the best one."""

    actions: torch.Tensor
    explores: torch.Tensor


def random_actions(games: int, actions: int, epsilon: float, rng: torch.Generator) -> Drawn:
    random = torch.randint(actions, (games,), generator=rng)
    return Drawn(random, torch.rand(games, generator=rng) < epsilon)


@torch.no_grad()
def best_actions(ask: Ask, network: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """(N, history, size, size) -> (N,) int64."""
    return ask(network, states).argmax(dim=1)


def push_frames(stack: torch.Tensor, ages: torch.Tensor, newest: torch.Tensor, resets: torch.Tensor) -> None:
    """Puts the newest frames on the stacks, in place; a game that begins has its first frame in every place."""
    begins, channels = resets != 0, newest.shape[1]
    rolled = torch.cat([stack[:, channels:], newest], dim=1)
    filled = newest[:, None].expand(-1, stack.shape[1] // channels, *newest.shape[1:]).reshape(stack.shape)
    stack.copy_(torch.where(begins.view(-1, *[1] * (stack.ndim - 1)), filled, rolled))
    ages.copy_(torch.where(begins, 0, ages + 1))


class Actor:
    """Plays a task with a stack of recent frames, keeping the scores of the games that finish.

    Games cannot be frozen, but they can be repeated: the same seed and the same actions bring back the same moment. So
    a player writes down its actions from the last seam on, and taking up a game again means playing it up to here, at
    the emulator's speed.

    On a GPU the way from the frames of one step to the best actions of the next is recorded, and is under way as soon
    as the frames have arrived: emulators stand still until they have new actions. Beside a learner it does not wait for
    updates either.
    """

    def __init__(
        self,
        task: VectorTask,
        history: int,
        actions: int,
        device: torch.device | str,
        faster: Callable[[Callable], Callable] = lambda function: function,
    ) -> None:
        self.task, self.history, self.actions, self.device = task, history, actions, torch.device(device)
        self.ask, self.push_frames = faster(forward), faster(push_frames)  # they may be compiled
        self.scores: list[float] = []
        self.running = np.zeros(task.num_envs)
        frame, state = task.observation, task.observation.stacked(history)
        self.stack = torch.zeros((task.num_envs, *state.shape), dtype=state.torch_dtype, device=device)
        self.ages = torch.zeros(task.num_envs, dtype=torch.int64, device=device)
        self.inbox = HostBuffers(task.num_envs, frame, self.device)
        self.acted = np.zeros(task.num_envs, dtype=np.int64)
        self.drawn: Drawn | None = None  # for the next step
        self.unsettled: tuple[np.ndarray, Step] | None = None  # the actions of the last step, and what they brought
        self.uncounted: Step | None = None
        # What the replay files with it: the newest frames when the actions were chosen, and their ages.
        self.frames_before = torch.zeros((task.num_envs, *frame.shape), dtype=frame.torch_dtype, device=device)
        self.ages_before = torch.zeros_like(self.ages)
        self.records = self.device.type == "cuda"
        self._look: Callable[[], None] | None = None  # recorded: the newest frames taken in, and the best actions found
        self._network: torch.nn.Module | None = None  # whose actions these are
        self._best = torch.zeros(task.num_envs, dtype=torch.int64, pin_memory=self.records)
        self._best_there = self._best.numpy()
        self._looked = False  # whether they are for the frames on the stack
        self.stream: torch.cuda.Stream | None = None  # None: whichever is current
        self._cleared: torch.cuda.Event | None = None
        self._gate: StreamGate | None = None
        self.seed: int | None = None  # of the games in play
        self.log: list[np.ndarray] = []  # their actions

    def part(self) -> None:
        """Leaves the learner's stream for one that a GPU serves first. From then on the learner has to say when the
        next step may be looked at (`clear`)."""
        if self.records:
            self.stream, self._cleared, self._gate = (
                torch.cuda.Stream(priority=-1),
                torch.cuda.Event(),
                new_stream_gate(),
            )

    def clear(self) -> None:
        """The learner has asked for all that it needs of the last step and for what the next look depends on: its
        network, say. The look waits for that, and not for what the learner asks for after it."""
        if self._cleared:
            self._cleared.record()

    def begin(self, seed: int) -> None:
        """Starts every game anew, with its first frame in place of the frames before it."""
        self._wait()
        self.seed, self.log, self._looked = seed, [], False
        first = torch.from_numpy(self.task.reset(seed))
        self.stack.copy_(first.repeat(1, self.history, *[1] * (first.ndim - 2)))
        self.ages.zero_()
        self.running[:] = 0
        self._follow()

    def _follow(self) -> None:
        """What comes on the player's stream follows what the current one has now."""
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())

    def _lead(self) -> None:
        """The other way round."""
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)

    def draw(self, epsilon: float, rng: torch.Generator) -> None:
        """Draws random actions for the next step, unless that was done before: while games run it costs nothing, once
        their frames are there they stand still for it."""
        if self.drawn is None:
            self.drawn = random_actions(self.task.num_envs, self.actions, epsilon, rng)

    def send(self, network: torch.nn.Module | None, epsilon: float, rng: torch.Generator) -> None:
        """Chooses actions and sets the games moving; the learner may work until `receive`."""
        self.draw(epsilon, rng)
        assert self.drawn is not None
        (actions, explores), self.drawn = (each.numpy() for each in self.drawn), None
        if network is not None and epsilon < 1.0:  # the network is not asked where its answer would not count
            actions = np.where(explores, actions, self._best_of(network))
        else:
            self._wait()
        self.acted = actions
        self.task.send(self.acted)
        self.log.append(self.acted.astype(np.int16))

    def _best_of(self, network: torch.nn.Module) -> np.ndarray:
        if self._network is not network:
            self._network, self._look, self._looked = network, None, False
        if not self._looked:
            self._follow()
            with torch.cuda.stream(self.stream):
                return best_actions(self.ask, network, self.stack).cpu().numpy()
        self._wait()
        return self._best_there

    def _wait(self) -> None:
        if self.device.type == "cuda":
            (self.stream or torch.cuda.current_stream()).synchronize()

    def receive(self) -> Step:
        """Waits for the games and takes in what they show; on a GPU, the choice of the next actions begins, asked for
        before the frames are there if possible. The weights that it is made by may change again only after the next
        `send`."""
        self._looked = self._look is not None
        if self._looked and self._gate and self.stream and not self.task.may_use_gpu:
            with self._gate.closed(self.stream):
                self._take_in()
                step = self._arrived()
        else:
            step = self._arrived()
            self._take_in()
        return step

    def _arrived(self) -> Step:
        step = self.task.receive()
        self.inbox.write_observations(step.observations, step.autoreset)
        self.unsettled = (self.acted, step)
        return step

    def _take_in(self) -> None:
        if self.stream and self._cleared:
            self.stream.wait_event(self._cleared)
        with torch.cuda.stream(self.stream):
            if self._look:
                self._look()
            else:
                self.take_in()
                if self.records and self._network is not None:  # asked once, so all that is compiled is compiled
                    self._look = capture_graph(self._take_in_and_choose, stream=self.stream)

    def take_in(self) -> None:
        """Moves the stacks on. Only tensors, all in place."""
        self.inbox.upload(OBSERVATIONS)
        self.frames_before.copy_(self.stack[:, -self.frames_before.shape[1] :])
        self.ages_before.copy_(self.ages)
        self.push_frames(self.stack, self.ages, self.inbox.frames, self.inbox.resets)

    def _take_in_and_choose(self) -> None:
        self.take_in()
        assert self._network is not None
        self._best.copy_(best_actions(self.ask, self._network, self.stack), non_blocking=True)

    def settle(self) -> None:
        """Gets ready to hand on what was done in the last step and what came of it (`moment`). The next actions do not
        depend on it, so it may follow their `send`; scores are counted later still."""
        if self.unsettled is None:
            return
        (actions, step), self.unsettled = self.unsettled, None
        self._wait()  # for the last look, which came after the outcome before this one had left
        terminals = step.terminated | step.lost_life
        self.inbox.write_outcomes(actions, step.rewards, terminals, step.truncated)
        self.uncounted = step

    def _count(self) -> None:
        if self.uncounted is None:
            return
        step, self.uncounted = self.uncounted, None
        self.running += step.rewards
        for game in np.flatnonzero(step.done):
            self.scores.append(float(self.running[game]))
            self.running[game] = 0

    def moment(self) -> Transition:
        """The step that was settled, as a replay takes it; only tensors, too."""
        self.inbox.upload(OUTCOMES)
        actions, rewards, terminals, truncated = self.inbox.outcomes
        return Transition(
            frames=self.frames_before,
            ages=self.ages_before,
            actions=actions.long(),
            rewards=rewards.clamp(-1.0, 1.0),
            terminals=terminals != 0,
            truncated=truncated != 0,
            is_transition=self.inbox.resets == 0,
        )

    def rest(self) -> None:
        """Leaves the games; they are not taken up again."""
        self.seed, self.log, self.unsettled, self.uncounted = None, [], None, None

    def state(self) -> dict[str, Any]:
        drawn = self.drawn._asdict() if self.drawn else None
        if self.seed is None:
            return {"seed": None, "drawn": drawn}
        self._count()
        self._lead()
        log = (
            torch.from_numpy(np.stack(self.log))
            if self.log
            else torch.zeros((0, self.task.num_envs), dtype=torch.int16)
        )
        return {
            "seed": self.seed,
            "drawn": drawn,
            "log": log,
            "stack": self.stack,
            "ages": self.ages,
            "running": torch.from_numpy(self.running.copy()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Plays the games up to where they were."""
        self.drawn = Drawn(**state["drawn"]) if state.get("drawn") else None  # older checkpoints have drawn nothing
        if state["seed"] is None:
            return
        self.begin(state["seed"])
        for actions in state["log"].numpy():
            self.log.append(actions)
            self.task.send(actions.astype(np.int64))
            self.receive()
            self._wait()
        self.unsettled = None  # its score was counted then
        if not torch.equal(self.stack.cpu(), state["stack"]):
            raise UserError(
                f"{self.task.name} does not repeat itself: the same seed and actions led to other frames, so its games "
                "cannot be taken up again; delete the stage's folder under unfinished/ to start it anew"
            )
        self.running[:] = state["running"].numpy()

    def take_scores(self) -> list[float]:
        """The scores of the games finished since the last call, up to the last step that was settled."""
        self._count()
        scores, self.scores = self.scores, []
        return scores
