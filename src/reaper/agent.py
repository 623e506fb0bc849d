"""A trained agent, opened from a run: for playing, and for use in other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reaper.errors import UserError
from reaper.learning.acting import Player
from reaper.learning.context import Context
from reaper.memory.long_term import LongTermMemory
from reaper.paper.settings import Settings
from reaper.scales import as_dict, from_dict
from reaper.stages import read_memory
from reaper.store import Artefact, Store
from reaper.tasks.sequence import find_task, match_task


class Agent:
    """One network that plays every task it has learnt."""

    def __init__(self, memory: LongTermMemory, settings: Settings, actions: int, device: str = "cpu") -> None:
        self.memory, self.tasks = memory, memory.tasks
        self.context = Context(settings, actions, 0, ("play",), torch.device(device))
        self.network = self.context.q_network(memory.agent).eval()
        self._randomness = self.context.stream("predict")

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """History, height and width of a state: uint8, the oldest frame first."""
        frames = self.context.settings.frames
        return (frames.history, frames.size, frames.size)

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
            rate = self.context.settings.evaluation.exploration
            randomness, device = self._randomness, self.context.device
            explore = torch.rand(len(batch), generator=randomness, device=device) < rate
            random = torch.randint(self.context.actions, (len(batch),), generator=randomness, device=device)
            actions = torch.where(explore, random, actions)
        chosen = actions.cpu().numpy()
        return (chosen[0] if states.ndim == 3 else chosen), None

    def play(self, task: str, seed: int = 0) -> Iterator[tuple[np.ndarray, float]]:
        """One whole game: its frames (size, size) and the score so far."""
        game = self.context.open(find_task(match_task(self.tasks, task)), 1)
        player = Player(game, self.context.settings.frames.history, self.context.actions, self.context.device)
        randomness = self.context.stream("game", seed)
        player.begin(self.context.derive_seed("game", task, seed))
        score, ended = 0.0, False
        while not ended:
            yield player.stack[0, -1].cpu().numpy().copy(), score
            player.send(self.network, self.context.settings.evaluation.exploration, randomness)
            step = player.receive()
            player.take_in()
            score, ended = score + float(step.rewards[0]), bool(step.ended[0])
        yield player.stack[0, -1].cpu().numpy().copy(), score
        game.close()


def load(
    path: str | Path,
    condition: str | None = None,
    seed: int | None = None,
    sequence: str | None = None,
    after_task: int | None = None,
    device: str = "cpu",
) -> Agent:
    """The agent of a run (an output folder) or of one long-term memory (a stage's folder).

    Where a folder holds several runs, `condition`, `seed` and `sequence` choose one; `after_task` counts from one and
    chooses an earlier long-term memory than the last.
    """
    path = Path(path)
    if (path / "manifest.json").is_file():
        return _open(Artefact(path), device)
    store = Store.open(path)
    wanted = {"condition": condition, "seed": seed, "sequence": sequence}
    runs = [run for run in store.runs() if run["memories"] and _matches(run, wanted)]
    if not runs:
        raise UserError(f"{path} holds no run with {_named(wanted)}; it has {_names(store)}")
    if len(runs) > 1 and not (condition and len({(r["condition"]["name"], r["sequence"]) for r in runs}) == 1):
        raise UserError(
            f"{path} holds several runs; choose one with a condition, a seed or a sequence: {_names(store)}"
        )
    memories = runs[0]["memories"]
    number = len(memories) if after_task is None else after_task
    if not 1 <= number <= len(memories):
        raise UserError(f"after which task must be 1 to {len(memories)}, not {after_task}")
    return _open(store.stage(memories[number - 1]), device)


def _matches(run: dict[str, Any], wanted: dict[str, Any]) -> bool:
    held = {"condition": run["condition"]["name"], "seed": run["seed"], "sequence": run["sequence"]}
    return all(value is None or held[key] == value for key, value in wanted.items())


def _named(wanted: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in wanted.items() if value is not None) or "a long-term memory"


def _names(store: Store) -> str:
    return ", ".join(run["name"] for run in store.runs()) or "none"


def _open(artefact: Artefact, device: str) -> Agent:
    spec = artefact.manifest.get("spec", {})
    if spec.get("kind") != "consolidate":
        raise UserError(
            f"{artefact.folder} holds no long-term memory but {artefact.manifest.get('title', 'something else')}"
        )
    settings = from_dict({**as_dict(Settings()), **spec["settings"]})
    return Agent(read_memory(artefact), settings, spec["actions"], device)
