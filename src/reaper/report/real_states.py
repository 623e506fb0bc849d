"""Real states of each task, to compare generated ones with. Its teacher plays them: no replay is stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from reaper.context import Context
from reaper.errors import DamagedArtefact, UserError
from reaper.learning.actor import new_actor
from reaper.learning.exploration import epsilon_at
from reaper.results.runs import RunResult
from reaper.storage.store import Artefact, Store
from reaper.study.stage_run import read_policy
from reaper.tasks.sequence import find_task

NUM_ENVS, HELD_OUT = 16, 4  # parallel environments; the states of the last ones are held out
SAMPLES, INTERVAL = 120, 2  # states taken from each environment, and agent steps between them


@dataclass(frozen=True)
class RealStates:
    """States of one task: (count, *observation)."""

    train: np.ndarray
    held_out: np.ndarray  # from other episodes


def read_real_states(store: Store, run: RunResult) -> tuple[list[RealStates | None], list[str]]:
    """One entry per task, None where its teacher is not finished; and which tasks could not be played here."""
    found: list[RealStates | None] = []
    remarks: list[str] = []
    for task, title, digest in zip(run.tasks, run.titles, run.record.teachers, strict=True):
        teacher = store.stage(digest) if store.has(digest) else None
        try:
            found.append(_play(run, task, teacher) if teacher else None)
        except UserError as error:
            found.append(_stored(teacher) if teacher else None)
            remarks.append(f"{title} could not be played here ({error}); its 64 stored states are used instead.")
    return found, remarks


def context_of(run: RunResult) -> Context:
    return Context(run.settings, run.record.num_actions, run.seed, ("report",))


def _play(run: RunResult, task: str, teacher: Artefact) -> RealStates:
    """Plays with the exploration schedule of the teacher's training, compressed to a few hundred steps."""
    network_of = teacher.spec.get("network", {})
    if not teacher.has("agent.safetensors") or network_of.get("family") == "function":
        return _stored(teacher)  # a report imports nothing that a file names
    context = context_of(run)
    network = read_policy(context, teacher, task).eval()
    envs = context.open(find_task(task), NUM_ENVS)
    actor = new_actor(context, envs, compiled=False)
    rng = context.cpu_rng("states", task)
    actor.reset(context.derive_seed("states", task))
    samples, steps = [], SAMPLES * INTERVAL
    for step in range(steps):
        trained = step * run.settings.short_term.agent_steps // steps
        actor.act(network, epsilon_at(trained, run.settings.training), rng)
        actor.observe()
        if step % INTERVAL == INTERVAL - 1:
            samples.append(actor.states.cpu().numpy().copy())
    envs.close()
    states = np.stack(samples)  # (samples, envs, *observation)
    train, held_out = states[:, :-HELD_OUT], states[:, -HELD_OUT:]
    return RealStates(train.reshape(-1, *states.shape[2:]), held_out.reshape(-1, *states.shape[2:]))


def _stored(teacher: Artefact) -> RealStates:
    states = stored_states(teacher, "real")
    if states is None:
        raise DamagedArtefact(teacher.folder / "states.safetensors", "is missing")
    border = len(states) * 3 // 4
    return RealStates(states[:border], states[border:])


def stored_states(stage: Artefact, name: str) -> np.ndarray | None:
    """The few states that a stage stores for the report: (count, *observation)."""
    if not stage.has("states.safetensors"):
        return None
    states = stage.tensors("states").get(name)
    known = ((4, torch.uint8), (2, torch.float32))  # images, vectors
    if states is not None and ((states.ndim, states.dtype) not in known or 0 in states.shape):
        raise DamagedArtefact(stage.folder / "states.safetensors", "holds neither images nor vectors")
    return None if states is None else states.numpy()
