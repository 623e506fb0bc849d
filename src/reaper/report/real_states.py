"""Real states of each task, to hold dreams against: played anew by the task's own DQN, whose replay was never kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from reaper.context import Context
from reaper.errors import DamagedArtefact, UserError
from reaper.learning.actor import Actor, exploration
from reaper.results.runs import RunResult
from reaper.storage.store import Artefact, Store
from reaper.tasks.sequence import find_task

GAMES, HELD_OUT = 16, 4  # played side by side; the last ones are for testing alone
MOMENTS, APART = 120, 2  # states kept of each game, and steps from one to the next


@dataclass(frozen=True)
class RealStates:
    """Of one task: (count, history, size, size), uint8."""

    train: np.ndarray
    test: np.ndarray  # from games of their own


def read_real_states(store: Store, run: RunResult) -> tuple[list[RealStates | None], list[str]]:
    """For each task whose teacher is finished, and why some had to be taken from the few pictures in the store."""
    found: list[RealStates | None] = []
    remarks: list[str] = []
    for task, title, digest in zip(run.tasks, run.titles, run.record.teachers, strict=True):
        artefact = store.stage(digest) if store.has(digest) else None
        try:
            found.append(_played(run, task, artefact) if artefact else None)
        except UserError as error:
            found.append(_pictured(artefact) if artefact else None)
            remarks.append(f"{title} could not be played here ({error}); its 64 stored pictures stand in.")
    return found, remarks


def context_of(run: RunResult) -> Context:
    return Context(run.settings, run.record.num_actions, run.seed, ("report",))


def _played(run: RunResult, task: str, teacher: Artefact) -> RealStates:
    """With the exploration of the teacher's training, from its first frame to its last."""
    if not teacher.has("agent.safetensors"):
        return _pictured(teacher)
    context = context_of(run)
    network = context.q_network(teacher.tensors("agent")).eval()
    games = context.open(find_task(task), GAMES)
    actor = Actor(games, run.settings.observation.frame_stack, context.num_actions, context.device)
    rng = context.cpu_rng("states", task)
    actor.begin(context.derive_seed("states", task))
    kept, steps = [], MOMENTS * APART
    for step in range(steps):
        frame = step * run.settings.short_term.agent_steps // steps
        actor.send(network, exploration(frame, run.settings.training), rng)
        actor.receive()
        if step % APART == APART - 1:
            kept.append(actor.stack.cpu().numpy().copy())
    actor.rest()
    games.close()
    states = np.stack(kept)  # (moments, games, history, size, size)
    train, test = states[:, :-HELD_OUT], states[:, -HELD_OUT:]
    return RealStates(train.reshape(-1, *states.shape[2:]), test.reshape(-1, *states.shape[2:]))


def _pictured(teacher: Artefact) -> RealStates:
    states = stored_states(teacher, "real")
    if states is None:
        raise DamagedArtefact(teacher.folder / "pictures.safetensors", "is missing")
    border = len(states) * 3 // 4
    return RealStates(states[:border], states[border:])


def stored_states(artefact: Artefact, name: str) -> np.ndarray | None:
    """States that a stage kept for the report: (count, history, size, size)."""
    if not artefact.has("pictures.safetensors"):
        return None
    states = artefact.tensors("pictures").get(name)
    if states is not None and (states.ndim != 4 or states.dtype != torch.uint8 or 0 in states.shape):
        raise DamagedArtefact(artefact.folder / "pictures.safetensors", "holds no pictures")
    return None if states is None else states.numpy()
