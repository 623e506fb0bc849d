"""The actor: steps environments with epsilon-greedy actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from reaper.compute.compilation import forward
from reaper.compute.host_buffers import OUTCOMES
from reaper.context import Context
from reaper.errors import UserError
from reaper.learning.episode_statistics import EpisodeStatistics
from reaper.learning.exploration import EpsilonGreedy
from reaper.learning.frame_stack import FrameStack, push_frames
from reaper.learning.greedy_policy import GreedyPolicy
from reaper.memory.replay import Transition
from reaper.state import State
from reaper.tasks.task import Step, VectorTask


class Outcome(NamedTuple):
    """The actions of one step, and what they led to."""

    actions: np.ndarray  # (num_envs,) int64
    step: Step


class Actor:
    """Acts in a vector of environments, with actions that they have: the network's first `envs.num_actions`.

        actor.reset(seed)
        actor.act(network, epsilon, rng)        # the environments start to step ...
        outcome = actor.observe()               # ... and have stepped; a learner may work in between
        actor.write_outcome(outcome)            # optional: the transition, for a replay
        replay.add(actor.transition())

    The state of an environment cannot be saved, but it can be reproduced: the same seed and the same actions lead to
    the same state. So the actor logs its actions since the last reset, and `restore` replays them at the speed of the
    emulator. `replaying` wraps the log meanwhile, as a progress bar does.
    """

    def __init__(
        self,
        envs: VectorTask,
        *,
        frame_stack: int,
        reward_clip: float = 1.0,
        device: torch.device | str = "cpu",
        compile: Callable[[Callable], Callable] = lambda function: function,
        cuda_graphs: bool = True,
        replaying: Callable[[np.ndarray], Iterable[np.ndarray]] = iter,
    ) -> None:
        self.envs, self._replaying, self._reward_clip = envs, replaying, reward_clip
        self.exploration = EpsilonGreedy(envs.num_envs, envs.num_actions)
        self.statistics = EpisodeStatistics(envs.num_envs)
        self.frames = FrameStack(envs, frame_stack, torch.device(device), compile(push_frames))
        self.policy = GreedyPolicy(self.frames, compile(forward), envs.num_actions, cuda_graphs=cuda_graphs)
        self.actions = np.zeros(envs.num_envs, dtype=np.int64)  # the last ones
        self.seed: int | None = None  # of the last reset; None: the environments are not in use
        self.action_log: list[np.ndarray] = []  # since then

    def use_envs(self, envs: VectorTask) -> None:
        """Acts in other environments from the next reset on: as many, with the same observation."""
        self.envs, self.exploration.num_actions = envs, envs.num_actions
        self.policy.choose_among(envs.num_actions)

    @property
    def in_use(self) -> bool:
        """Whether the environments have been reset, and not been left since."""
        return self.seed is not None

    @property
    def states(self) -> torch.Tensor:
        """(num_envs, *observation.shape) what the network sees."""
        return self.frames.states

    def reset(self, seed: int) -> None:
        """Resets every environment."""
        self.policy.synchronize()
        self.seed, self.action_log = seed, []
        self.policy.invalidate()
        self.frames.reset(torch.from_numpy(self.envs.reset(seed)))
        self.statistics.reset()
        self.policy.wait_for_learner()

    def act(self, network: torch.nn.Module | None, epsilon: float, rng: torch.Generator) -> None:
        """Chooses actions and starts the environments. Without a network, or with epsilon 1, all actions are random."""
        self.exploration.sample(epsilon, rng)
        actions, explore = self.exploration.take()
        if network is not None and epsilon < 1.0:
            actions = np.where(explore, actions, self.policy.actions(network))
        else:
            self.policy.synchronize()
        self.actions = actions
        self.envs.send(self.actions)
        self.action_log.append(self.actions.astype(np.int16))

    def observe(self) -> Outcome:
        """Waits for the environments. On a GPU, the choice of the next greedy actions begins."""
        return Outcome(self.actions, self.policy.observe(self._receive, self.envs.may_use_gpu))

    def _receive(self) -> Step:
        step = self.envs.receive()
        self.frames.buffers.write_observations(step.observations, step.autoreset)
        return step

    def write_outcome(self, outcome: Outcome) -> None:
        """Puts a step's actions, rewards and ends into the host buffers, for `transition`. The next actions do not
        depend on it, so it may follow the next `act`."""
        actions, step = outcome
        self.policy.synchronize()  # the graph that ran last was enqueued after the previous outcome was uploaded
        terminals = step.terminated | step.lost_life
        self.frames.buffers.write_outcomes(actions, step.rewards, terminals, step.truncated)

    def transition(self) -> Transition:
        """The step whose outcome was written. Tensor operations only, so it can be captured."""
        self.frames.buffers.upload(OUTCOMES)
        actions, rewards, terminals, truncated = self.frames.buffers.outcomes
        return Transition(
            frames=self.frames.previous_frames,
            ages=self.frames.previous_ages,
            actions=actions.long(),
            rewards=rewards.clamp(-self._reward_clip, self._reward_clip),
            terminals=terminals != 0,
            truncated=truncated != 0,
            is_transition=self.frames.buffers.resets == 0,
        )

    def leave(self) -> None:
        """Leaves the environments: a checkpoint will not reproduce them."""
        self.seed, self.action_log = None, []

    def state(self) -> State:
        random_actions = self.exploration.state()
        if self.seed is None:
            return {"seed": None, "random_actions": random_actions}
        self.policy.make_learner_wait()
        empty = np.zeros((0, self.envs.num_envs), dtype=np.int16)
        return {
            "seed": self.seed,
            "random_actions": random_actions,
            "action_log": torch.from_numpy(np.stack(self.action_log) if self.action_log else empty),
            "stack": self.frames.states,
            "ages": self.frames.ages,
            "returns": torch.from_numpy(self.statistics.running.copy()),
        }

    def restore(self, state: State) -> None:
        """Replays the action log."""
        self.exploration.restore(state.get("random_actions"))
        if state["seed"] is None:
            return
        self.reset(state["seed"])
        for actions in self._replaying(state["action_log"].numpy()):
            # Until 0.3 an action that the task lacks could be chosen, and was a no-op: action 0.
            actions = np.where(actions < self.envs.num_actions, actions, 0).astype(np.int16)
            self.action_log.append(actions)
            self.envs.send(actions.astype(np.int64))
            self.observe()
            self.policy.synchronize()
        if not torch.equal(self.frames.states.cpu(), state["stack"]):
            raise UserError(
                f"{self.envs.name} is not deterministic: the same seed and actions led to other observations, so its "
                "stage cannot be resumed; delete the stage's folder under unfinished/ to start it again"
            )
        self.statistics.running[:] = state["returns"].numpy()


def new_actor(context: Context, envs: VectorTask, *, compiled: bool = True) -> Actor:
    """An actor with a stage's settings; `compiled` only where it acts long enough to repay compilation."""

    def replaying(action_log: np.ndarray) -> Iterator[np.ndarray]:
        context.progress.begin("replay actions", action_log.size)
        for actions in action_log:
            context.checkpointer.raise_if_stopped()
            yield actions
            context.progress.advance(actions.size)

    return Actor(
        envs,
        frame_stack=context.settings.observation.frame_stack,
        reward_clip=context.settings.training.reward_clip,
        device=context.device,
        compile=context.compile if compiled else lambda function: function,
        cuda_graphs=context.cuda_graphs,
        replaying=replaying,
    )
