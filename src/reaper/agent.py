"""A trained agent, loaded from a run: to choose actions in other programs, and to play its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from reaper.compute.threads import threads_for
from reaper.context import Context
from reaper.errors import UserError
from reaper.learning.actor import Actor, new_actor
from reaper.learning.found_memory import check_memory
from reaper.learning.frame_stack import push_frames
from reaper.memory.long_term import LongTermMemory
from reaper.storage.find import RunChoice, find_memory
from reaper.tasks.observation import VECTOR, ObservationSpec, to_picture
from reaper.tasks.sequence import find_task, match_task
from reaper.tasks.task import VectorTask
from reaper.zoo import locate

if TYPE_CHECKING:
    import gymnasium


class Agent:
    """One network that plays every task it has learnt."""

    def __init__(self, memory: LongTermMemory, context: Context) -> None:
        self.memory, self.tasks, self.context = memory, memory.tasks, context
        self.network = context.q_network(memory.agent).eval()
        self.num_actions = context.num_actions  # that `predict` chooses among
        self._rng = context.rng("predict")

    def for_task(self, task: str | gymnasium.Env) -> Agent:
        """The same agent for one of its tasks, or for an environment of `wrap`: `predict` then chooses only among the
        actions that it has. An agent's tasks may have different numbers of actions, and observations do not show it."""
        if isinstance(task, str):
            num_actions = find_task(match_task(self.tasks, task)).num_actions
        else:
            from reaper.tasks.wrappers import discrete_actions

            num_actions = int(discrete_actions(task).n)
        if num_actions > self.context.num_actions:
            raise UserError(f"{task} has {num_actions} actions, and this agent {self.context.num_actions}")
        limited = copy(self)
        limited.num_actions = num_actions
        return limited

    @property
    def observation(self) -> ObservationSpec:
        """What `predict` takes: stacked observations, the oldest first."""
        return self.context.observation

    @torch.no_grad()
    def predict(
        self,
        observation: np.ndarray,
        state: np.ndarray | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The action for one observation, or for each of a batch of them, as Stable-Baselines3's models predict it.

        An observation is a whole state, as environments of `wrap` and `make_env` return it. Then `state` is not needed,
        and None comes back. Or it is a single frame: then `state` is the stack of frames so far, which this call
        returns for the next one, and `episode_start` says which environments have just been reset; theirs start anew.

        With `deterministic` the action of the largest output is chosen, otherwise epsilon-greedily, with the epsilon of
        evaluations (0.05 in the paper). Where the agent's tasks have different numbers of actions, `for_task` limits
        the choice to those of one task.
        """
        given, spec = np.asarray(observation), self.observation
        is_batch = given.ndim == len(spec.shape) + 1
        batch = given if is_batch else given[None]
        if batch.dtype != spec.dtype or batch.shape[1:] not in (spec.shape, spec.frame.shape):
            wanted = f"{spec.dtype} of shape {spec.shape}, or a frame of shape {spec.frame.shape}"
            raise UserError(f"an observation is {wanted}, not {given.dtype} {given.shape}")
        stacks = None if batch.shape[1:] == spec.shape else self._stack(batch, state, episode_start)
        states = torch.tensor(batch) if stacks is None else stacks
        with threads_for(len(states)):
            actions = self.network(states.to(self.context.device))[:, : self.num_actions].argmax(dim=1)
        if not deterministic:
            actions = self._explore(actions)
        chosen = actions.cpu().numpy()
        return (chosen if is_batch else chosen[0]), None if stacks is None else stacks.numpy()

    def _stack(self, frames: np.ndarray, stacks: np.ndarray | None, episode_start: np.ndarray | None) -> torch.Tensor:
        """(N, *frame.shape) pushed onto (N, *observation.shape); None stands for stacks of which all start anew."""
        shape = (len(frames), *self.observation.shape)
        starts = np.zeros(len(frames), bool) if episode_start is None else np.reshape(episode_start, -1).astype(bool)
        if len(starts) != len(frames):
            raise UserError(f"episode_start has {len(starts)} entries for {len(frames)} observations")
        if stacks is None and not starts.all():
            raise UserError("a single frame is no state: pass the state that predict returned, or episode_start")
        before = np.zeros(shape, frames.dtype) if stacks is None else np.asarray(stacks)
        if before.shape != shape or before.dtype != frames.dtype:
            raise UserError(f"the state that predict returns is {frames.dtype} of shape {shape}, not {before.shape}")
        states = torch.tensor(before)
        push_frames(states, torch.zeros(len(frames)), torch.tensor(frames), torch.tensor(starts))
        return states

    def _explore(self, actions: torch.Tensor) -> torch.Tensor:
        epsilon, count, device = self.context.settings.evaluation.epsilon, len(actions), self.context.device
        explores = torch.rand(count, generator=self._rng, device=device) < epsilon
        random = torch.randint(self.num_actions, (count,), generator=self._rng, device=device)
        return torch.where(explores, random, actions)

    def wrap(self, env: gymnasium.Env) -> gymnasium.Env:
        """Any Gymnasium environment with such observations and discrete actions, as this agent sees it: frames as in
        training, stacked, and actions from 0 on, of which those that the environment lacks are its first;
        `for_task(env)` never chooses them. An Atari environment of ale-py also skips and pools frames, starts with
        no-ops and takes the joystick's actions, as in training; make it with `frameskip=1` and
        `repeat_action_probability=0.0`."""
        from reaper.tasks.wrappers import wrap

        return wrap(env, self.observation, self.context.num_actions, self.context.settings)

    def make_env(self, task: str) -> gymnasium.Env:
        """A plain Gymnasium environment of one of the agent's tasks, exactly as in training."""
        from reaper.tasks.task_env import TaskEnv
        from reaper.tasks.wrappers import stack_frames

        envs = self.context.open(find_task(match_task(self.tasks, task)), 1)
        return stack_frames(TaskEnv(envs), self.observation)

    def play(self, task: str, seed: int = 0, human_view: bool = False) -> Iterator[tuple[np.ndarray, float]]:
        """Plays one episode, and yields each frame (height, width) with the return so far. With `human_view`, frames
        are the rendered screen (height, width, 3), where the task has one; those of vectors always are."""
        found = find_task(match_task(self.tasks, task))
        with ExitStack() as opened:
            env = opened.enter_context(closing(self.context.open(found, 1)))
            view, vectors = None, self.observation.kind == VECTOR
            if vectors and not found.human_view:
                raise UserError(f"{found.name} has no pictures: it emits vectors, and does not render")
            if found.human_view and (human_view or vectors):
                view = opened.enter_context(closing(found.human_view(self.context.env_options(found, 1))))
            yield from self._episode(env, view, seed)

    def _episode(self, env: VectorTask, view: VectorTask | None, seed: int) -> Iterator[tuple[np.ndarray, float]]:
        """The view takes the same actions as the environment; its frames are shown in place of the observations."""
        context = self.context
        actor = new_actor(context, env, compiled=False)
        # "game" is the key of these random streams: renaming it would change every recorded episode.
        rng, first = context.cpu_rng("game", seed), context.derive_seed("game", env.name, seed)
        actor.reset(first)
        shown = view.reset(first) if view else self._newest(actor)
        identity = 0 if view else self.observation.identity
        episode_return, done = 0.0, False
        while not done:
            yield to_picture(shown[0], identity).copy(), episode_return
            actor.act(self.network, context.settings.evaluation.epsilon, rng)
            if view:
                view.send(actor.actions)
            step = actor.observe().step
            shown = view.receive().observations if view else self._newest(actor)
            episode_return, done = episode_return + float(step.rewards[0]), bool(step.done[0])
        yield to_picture(shown[0], identity).copy(), episode_return

    def _newest(self, actor: Actor) -> np.ndarray:
        return actor.states[:, -self.observation.frame.shape[0] :].cpu().numpy()


def load(
    path: str | Path,
    condition: str | None = None,
    seed: int | None = None,
    sequence: str | None = None,
    after_task: int | None = None,
    device: str = "cpu",
) -> Agent:
    """The agent of a run (an output folder), of one long-term memory (a stage's folder, an imported memory, or the file
    it was exported to), or of a memory that comes with the package (`pretrained:NAME`).

    Where a folder holds several runs, `condition`, `seed` and `sequence` choose one. `after_task` counts from one and
    chooses an earlier long-term memory than the last.
    """
    found = find_memory(locate(path), RunChoice(condition, seed, sequence), after_task)
    return Agent(found.memory, check_memory(found, device))
