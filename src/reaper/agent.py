"""A trained agent, opened from a run: for playing, and for use in other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import torch

from reaper.config.overrides import check
from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.learning.actor import Actor
from reaper.memory.long_term import LongTermMemory
from reaper.storage.find import FoundMemory, RunChoice, find_memory
from reaper.tasks.observation import to_picture
from reaper.tasks.sequence import find_task, match_task, open_human_view
from reaper.tasks.task import VectorTask
from reaper.zoo import locate


class Agent:
    """One network that plays every task it has learnt."""

    def __init__(self, memory: LongTermMemory, settings: Settings, actions: int, device: str = "cpu") -> None:
        self.memory, self.tasks = memory, memory.tasks
        self.context = Context(settings, actions, 0, ("play",), torch.device(device))
        self.network = self.context.q_network(memory.agent).eval()
        self._randomness = self.context.rng("predict")

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """History, height and width of a state: uint8, the oldest frame first."""
        frames = self.context.settings.observation
        return (frames.frame_stack, frames.frame_size, frames.frame_size)

    @torch.no_grad()
    def predict(self, observation: np.ndarray, deterministic: bool = True) -> tuple[np.ndarray, None]:
        """The action for a state (history, size, size), or for each of a batch of them; the second value is always
        None, as agents without a recurrent state return it elsewhere."""
        states = np.asarray(observation)
        if states.dtype != np.uint8 or states.shape[-3:] != self.observation_shape or states.ndim not in (3, 4):
            raise UserError(
                f"an observation is uint8 of shape {self.observation_shape}, not {states.dtype} {states.shape}"
            )
        batch = torch.from_numpy(states.reshape(-1, *self.observation_shape)).to(self.context.device)
        actions = self.network(batch).argmax(dim=1)
        if not deterministic:
            rate = self.context.settings.evaluation.epsilon
            rng, device = self._randomness, self.context.device
            explore = torch.rand(len(batch), generator=rng, device=device) < rate
            random = torch.randint(self.context.num_actions, (len(batch),), generator=rng, device=device)
            actions = torch.where(explore, random, actions)
        chosen = actions.cpu().numpy()
        return (chosen[0] if states.ndim == 3 else chosen), None

    def play(self, task: str, seed: int = 0, for_people: bool = False) -> Iterator[tuple[np.ndarray, float]]:
        """One whole game: its frames (size, size) and the score so far; `for_people`, frames are as people see the
        game, (height, width, 3), where the task has such."""
        found = find_task(match_task(self.tasks, task))
        with ExitStack() as opened:
            game = opened.enter_context(closing(self.context.open(found, 1)))
            show = open_human_view(found, self.context.env_options(1), self.context.num_actions) if for_people else None
            if show:
                opened.enter_context(closing(show))
            yield from self._played(game, show, seed)

    def _played(self, game: VectorTask, show: VectorTask | None, seed: int) -> Iterator[tuple[np.ndarray, float]]:
        actor = Actor(
            game, self.context.settings.observation.frame_stack, self.context.num_actions, self.context.device
        )
        rng, first = self.context.cpu_rng("game", seed), self.context.derive_seed("game", game.name, seed)
        actor.begin(first)
        seen = show.reset(first) if show else actor.stack[:, -1:].cpu().numpy()
        score, ended = 0.0, False
        while not ended:
            yield to_picture(seen[0]).copy(), score
            actor.send(self.network, self.context.settings.evaluation.epsilon, rng)
            if show:
                show.send(actor.acted)
            step = actor.receive()
            seen = show.receive().observations if show else actor.stack[:, -1:].cpu().numpy()
            score, ended = score + float(step.rewards[0]), bool(step.done[0])
        yield to_picture(seen[0]).copy(), score


def load(
    path: str | Path,
    condition: str | None = None,
    seed: int | None = None,
    sequence: str | None = None,
    after_task: int | None = None,
    device: str = "cpu",
) -> Agent:
    """The agent of a run (an output folder) or of one long-term memory (a stage's folder, an imported memory, or the
    file it was exported to), or one that comes with the package (`pretrained:NAME`).

    Where a folder holds several runs, `condition`, `seed` and `sequence` choose one; `after_task` counts from one and
    chooses an earlier long-term memory than the last.
    """
    found = find_memory(locate(path), RunChoice(condition, seed, sequence), after_task)
    return open_found(found, device)


def open_found(found: FoundMemory, device: str = "cpu") -> Agent:
    """The agent of a memory; one whose weights are of another network than its settings say is refused."""
    memory, actions, given = found.memory, found.spec.get("num_actions"), found.spec.get("settings")
    if type(actions) is not int or actions < 1 or not isinstance(given, dict):
        raise UserError("this long-term memory does not say for how many actions and with which settings it was made")
    settings = from_json(given)
    check(settings)
    agent = Agent(memory, settings, actions, device)
    if generator := memory.part("generator"):
        generator_for(settings).load(agent.context, generator)  # raises an error if it is of another network
    return agent
