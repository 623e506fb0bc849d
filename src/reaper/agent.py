"""A trained agent, loaded from a run: to choose actions in other programs, and to play its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import torch

from reaper.context import Context
from reaper.errors import UserError
from reaper.learning.actor import Actor, new_actor
from reaper.learning.found_memory import check_memory
from reaper.memory.long_term import LongTermMemory
from reaper.storage.find import RunChoice, find_memory
from reaper.tasks.observation import ObservationSpec, to_picture
from reaper.tasks.sequence import find_task, match_task, open_human_view
from reaper.tasks.task import VectorTask
from reaper.zoo import locate


class Agent:
    """One network that plays every task it has learnt."""

    def __init__(self, memory: LongTermMemory, context: Context) -> None:
        self.memory, self.tasks, self.context = memory, memory.tasks, context
        self.network = context.q_network(memory.agent).eval()
        self._rng = context.rng("predict")

    @property
    def observation(self) -> ObservationSpec:
        """What `predict` takes: stacked observations, the oldest first."""
        return self.context.observation

    @torch.no_grad()
    def predict(self, observation: np.ndarray, deterministic: bool = True) -> tuple[np.ndarray, None]:
        """The action for one state, or for each of a batch of states, as in Stable-Baselines3: the second value is the
        state of a recurrent policy, which this is not. Without `deterministic`, actions are epsilon-greedy."""
        states, spec = np.asarray(observation), self.observation
        is_batch = states.ndim == len(spec.shape) + 1
        if states.dtype != spec.dtype or states.shape[is_batch:] != spec.shape:
            raise UserError(f"an observation is {spec.dtype} of shape {spec.shape}, not {states.dtype} {states.shape}")
        batch = torch.from_numpy(states if is_batch else states[None]).to(self.context.device)
        actions = self.network(batch).argmax(dim=1)
        if not deterministic:
            actions = self._explore(actions)
        chosen = actions.cpu().numpy()
        return (chosen if is_batch else chosen[0]), None

    def _explore(self, actions: torch.Tensor) -> torch.Tensor:
        epsilon, count, device = self.context.settings.evaluation.epsilon, len(actions), self.context.device
        explores = torch.rand(count, generator=self._rng, device=device) < epsilon
        random = torch.randint(self.context.num_actions, (count,), generator=self._rng, device=device)
        return torch.where(explores, random, actions)

    def play(self, task: str, seed: int = 0, human_view: bool = False) -> Iterator[tuple[np.ndarray, float]]:
        """Plays one episode, and yields each frame (height, width) with the return so far. With `human_view`, frames
        are the rendered screen (height, width, 3), where the task has one."""
        found = find_task(match_task(self.tasks, task))
        with ExitStack() as opened:
            env = opened.enter_context(closing(self.context.open(found, 1)))
            options, num_actions = self.context.env_options(1), self.context.num_actions
            view = open_human_view(found, options, num_actions) if human_view else None
            if view:
                opened.enter_context(closing(view))
            yield from self._episode(env, view, seed)

    def _episode(self, env: VectorTask, view: VectorTask | None, seed: int) -> Iterator[tuple[np.ndarray, float]]:
        """The view takes the same actions as the environment; its frames are shown in place of the observations."""
        context = self.context
        actor = new_actor(context, env, compiled=False)
        # "game" is the key of these random streams: renaming it would change every recorded episode.
        rng, first = context.cpu_rng("game", seed), context.derive_seed("game", env.name, seed)
        actor.reset(first)
        shown = view.reset(first) if view else self._newest(actor)
        episode_return, done = 0.0, False
        while not done:
            yield to_picture(shown[0]).copy(), episode_return
            actor.act(self.network, context.settings.evaluation.epsilon, rng)
            if view:
                view.send(actor.actions)
            step = actor.observe().step
            shown = view.receive().observations if view else self._newest(actor)
            episode_return, done = episode_return + float(step.rewards[0]), bool(step.done[0])
        yield to_picture(shown[0]).copy(), episode_return

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
