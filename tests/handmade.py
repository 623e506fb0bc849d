"""Stores written by hand with known scores, for tests of everything that reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from reaper.config.presets import ARCADE
from reaper.config.sparse_json import to_json
from reaper.storage.manifests import Provenance
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.study.chains import Chain, build_chain
from reaper.study.conditions import CONDITIONS
from reaper.study.stages import Stage
from reaper.tasks.sequence import Sequence as TaskSequence
from reaper.tasks.sequence import find_sequence
from reaper.tasks.task import Task

EPISODES = 2
# Fixed lengths, so that the arithmetic below does not change with the preset.
SETTINGS = replace(
    ARCADE,
    evaluation=replace(ARCADE.evaluation, episodes=EPISODES),
    short_term=replace(ARCADE.short_term, agent_steps=40_000),
    long_term=replace(ARCADE.long_term, agent_steps=40_000),
)
MACHINE = Provenance(seconds=60.0, device="cpu", processor="abacus", torch="9.9")

# Scores of random play and of the single-task DQN on each of three tasks.
RANDOM, SINGLE = (0.0, 0.0, -1.0), (10.0, 100.0, 1.0)
# After each task (rows) on each task (columns): a condition that forgets, and one that retains 80 % and 60 %.
FORGETS = [[10, 0, -1], [1, 100, -1], [0, 10, 1]]
KEEPS = [[10, 0, -1], [9, 100, -1], [8, 60, 0.9]]

Matrix = Sequence[Sequence[float]]


def pair(mean: float) -> list[float]:
    """Two episodes half a point either side of a mean: their standard deviation is 0.5."""
    return [mean - 0.5, mean + 0.5]


def write_chain(
    store: Store, chain: Chain, matrix: Matrix, until: int | None = None, windows: int | None = None
) -> None:
    """Writes the stages of a run with these scores; `until` is how many tasks have been consolidated so far, `windows`
    how many windows counted in the training of each teacher (None: as in 0.2, which did not record it)."""
    names, last = chain.sequence.names, len(chain.sequence.names) if until is None else until
    size = chain.settings.observation.frame_size
    store.write_run(chain.record())

    def write(stage: Stage, tensors: dict, documents: dict) -> None:
        store.write_stage(stage.manifest, tensors, documents, MACHINE)

    def row(task: str, mean: float, agent_steps: int = 0) -> dict:
        return {"task": task, "agent_steps": agent_steps, "scores": pair(mean)}

    for j, stage in enumerate(chain.teachers):
        real = torch.full((64, 2, size, size), 40 * j, dtype=torch.uint8)
        rows = [row(names[j], SINGLE[j] * share, int(40_000 * share)) for share in (0.5, 1.0)]
        best = {} if windows is None else {"best_weights": {"by": "score", "windows": windows, "value": None}}
        write(stage, {"states": {"real": real}}, {"rows": rows, **best})
    for j, stage in enumerate(chain.singles):
        write(stage, {}, {"rows": [row(names[j], SINGLE[j])]})
    assert chain.random
    write(chain.random, {}, {"rows": [row(name, RANDOM[j]) for j, name in enumerate(names)]})
    for k, stage in enumerate(chain.memories[:last]):
        generated = torch.randint(0, 255, (96, 2, size, size), dtype=torch.uint8)
        states = {"states": {"generated": generated}} if chain.condition.name == "RePR" else {}
        rows = [row(names[j], matrix[k][j], 40_000) for j in range(k + 1)] if k else []
        write(stage, states, {"rows": rows, "memory": {"tasks": list(names[: k + 1]), "bytes": 2_500_000 * (k + 1)}})
    for k, stage in enumerate(chain.evaluations[:last]):
        rows = [row(name, matrix[k][j]) for j, name in enumerate(names) if name in stage.spec["tasks"]]
        write(stage, {}, {"rows": rows})


Scores = dict[str, Matrix | None]  # None: nothing consolidated yet


def make_store(
    folder: Path,
    conditions: Scores,
    tasks: str | TaskSequence = "catch,dodge,shooter",
    seeds: Sequence[int] = (0,),
    until: Callable[[str, int], int | None] = lambda condition, seed: None,
    fraction: float = 1.0,
    windows: Callable[[int], int | None] = lambda seed: None,
) -> Store:
    store = Store.open_for(folder, StoreHeader("1.2.3", "arcade", fraction, to_json(SETTINGS)))
    sequence = find_sequence(tasks) if isinstance(tasks, str) else tasks
    for name, matrix in conditions.items():
        for seed in seeds:
            chain = build_chain(CONDITIONS[name], sequence, seed, SETTINGS)
            write_chain(store, chain, matrix or [], until(name, seed) if matrix else 0, windows(seed))
    store.close()
    return store


def atari_sequence() -> TaskSequence:
    """The paper's games by name only, so that no emulator is needed."""
    names = {"ALE/RoadRunner-v5": "Road Runner", "ALE/Boxing-v5": "Boxing", "ALE/Jamesbond-v5": "James Bond"}

    def never(num_envs: int, size: int) -> object:
        raise AssertionError("reports on stores without weights play nothing")

    return TaskSequence("atari-3", tuple(Task(name, title, 18, never) for name, title in names.items()))  # type: ignore


def row_of(markdown: str, heading: str, label: str) -> list[str]:
    """The cells of a row in the first table under a heading."""
    lines = markdown[markdown.index(heading) :].splitlines()
    return next([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith(f"| {label} |"))
