"""Measures a run's generators: which tasks their states look like, and whether they copy real states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reaper.generators import generator_for
from reaper.report.cache import ReportCache, decode_array, encode_array
from reaper.report.real_states import RealStates, context_of, read_real_states, stored_states
from reaper.report.scores import ConditionScores
from reaper.results.runs import RunResult
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Store
from reaper.tasks.observation import IMAGE, pictures

FORMAT = 2  # of cached measurements; raising it makes them again
SAMPLES, CHUNK, COMPARED, SHOWN = 250, 50, 200, 7
PLOTTED = 300  # vectors per task: a plot shows more of them than a row of images
CLASSIFIER_SIDE, RIDGE = 21, 1e-2  # frames are shrunk to this size for the classifier; its penalty on weights


@dataclass(frozen=True)
class GeneratedStates:
    """Generated states of one run next to real ones, as pictures: (count, frame_stack, height, width[, 3])."""

    condition: str
    seed: int
    titles: list[str]  # of the tasks whose real states are known
    stages: list[str]  # titles of the tasks after which there was a generator
    accuracy: float  # of the classifier, on held-out real states
    shares: np.ndarray  # (stages, tasks): which task each generator's states look like
    real: list[np.ndarray]  # per task, some real states
    generated: list[np.ndarray]  # per task, some states of the last generator that look like it; may be empty
    closest: np.ndarray  # states of the last generator that are closest to a real one
    neighbours: np.ndarray  # those real states
    distance: float  # median distance of a generated state to the nearest real one
    real_distance: float  # the same for real states of other episodes
    remarks: list[str]

    @property
    def are_vectors(self) -> bool:
        return self.neighbours.ndim == 2


def read_generated_states(store: Store, condition: ConditionScores, cache: ReportCache) -> GeneratedStates | None:
    """Of the first seed with a generator; None where there is none."""
    for run in condition.runs:
        if _generators(store, run):
            inputs = {"format": FORMAT, "teachers": _finished(store, run, "teachers")}
            inputs["memories"] = _finished(store, run, "memories")
            value = cache.get("generated-states", inputs, lambda run=run: _measure(store, run, cache))
            with cache.parsing("measurement of generated states"):
                return _parse(run, value) if value["shares"] else None
    return None


def _finished(store: Store, run: RunResult, role: str) -> list[str]:
    return [digest for digest in run.record.of_role(role) if store.has(digest)]


def _generators(store: Store, run: RunResult) -> dict[int, str]:
    """Position of a task -> digest of the memory after it, where that has a generator or stored samples of one."""
    return {
        place: digest
        for place, digest in enumerate(run.record.memories)
        if store.has(digest) and stored_states(store.stage(digest), "generated") is not None
    }


def _parse(run: RunResult, value: dict[str, Any]) -> GeneratedStates:
    return GeneratedStates(
        condition=run.name,
        seed=run.seed,
        titles=[run.titles[place] for place in value["tasks"]],
        stages=[run.titles[place] for place in value["stages"]],
        accuracy=float(value["accuracy"]),
        shares=np.array(value["shares"], dtype=float),
        real=[decode_array(states) for states in value["real"]],
        generated=[decode_array(states) for states in value["generated"]],
        closest=decode_array(value["closest"]),
        neighbours=decode_array(value["neighbours"]),
        distance=float(value["distance"]),
        real_distance=float(value["real_distance"]),
        remarks=list(map(str, value["remarks"])),
    )


def _measure(store: Store, run: RunResult, cache: ReportCache) -> dict[str, Any]:
    teachers = tuple(run.record.teachers)  # conditions of one seed share their teachers
    states, remarks = cache.memoise(("states", teachers), lambda: read_real_states(store, run))
    tasks = [place for place, real in enumerate(states) if real]
    known = [real for real in states if real]
    if not known:
        return {"shares": []}
    classify = cache.memoise(("classifier", teachers), lambda: TaskClassifier([real.train for real in known]))
    accuracy = np.mean([(classify(real.held_out) == label).mean() for label, real in enumerate(known)])
    stages = _generators(store, run)
    generated = [_sample(store, run, digest) for digest in stages.values()]
    labels = [classify(states) for states in generated]
    last = generated[-1]
    observation = context_of(run).observation

    def encode(states: np.ndarray) -> Any:
        if observation.kind != IMAGE:
            return encode_array(states)
        return encode_array(pictures(states, observation.frame.shape[0], observation.identity))

    return {
        "tasks": tasks,
        "stages": list(stages),
        "accuracy": float(accuracy),
        "shares": [[float((found == label).mean()) for label in range(len(known))] for found in labels],
        "real": [encode(_spread(real.train)) for real in known],
        "generated": [encode(last[labels[-1] == label][: _shown(last)]) for label in range(len(known))],
        **_compare(last[:COMPARED], known, encode),
        "remarks": remarks,
    }


def _shown(states: np.ndarray) -> int:
    """How many of such states the page shows."""
    return PLOTTED if states.ndim == 2 else SHOWN


def _spread(states: np.ndarray) -> np.ndarray:
    """A few states, evenly spaced from the first to the last."""
    return states[np.linspace(0, len(states) - 1, _shown(states)).astype(int)]


def _sample(store: Store, run: RunResult, digest: str) -> np.ndarray:
    """New samples of a memory's generator; where its weights are not stored, the samples that are."""
    memory = store.stage(digest)
    weights = read_memory(memory).part("generator") if memory.has("retained.safetensors") else None
    if not weights:
        states = stored_states(memory, "generated")
        assert states is not None
        return states
    context = context_of(run)  # "dreams" is the key of a random stream; renaming it would change the samples
    generator = generator_for(context.settings).load(context, weights)
    return generator.sample(SAMPLES, context.rng("dreams"), CHUNK).cpu().numpy()


# -- copies


def _compare(generated: np.ndarray, known: list[RealStates], encode: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    real = np.concatenate([states.train for states in known])
    others = np.concatenate([states.held_out for states in known])
    distances, nearest = nearest_states(generated, real)
    closest = np.argsort(distances, kind="stable")[:SHOWN]
    return {
        "closest": encode(generated[closest]),
        "neighbours": encode(real[nearest[closest]]),
        "distance": float(np.median(distances)),
        "real_distance": float(np.median(nearest_states(others[:: max(1, len(others) // COMPARED)], real)[0])),
    }


def nearest_states(states: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each state the root mean square difference (grey levels for images) to the nearest real one, and which."""
    ours, theirs = (torch.from_numpy(array.reshape(len(array), -1).astype(np.float32)) for array in (states, real))
    nearest = torch.cdist(ours, theirs, compute_mode="use_mm_for_euclid_dist").argmin(dim=1)
    differences = ours - theirs[nearest]  # cdist by matrix products is inexact near zero, so measure again
    return differences.square().mean(dim=1).sqrt().numpy(), nearest.numpy()


# -- tasks


class TaskClassifier:
    """Tells which task a state belongs to: ridge regression on shrunk frames, or on the numbers of vectors."""

    def __init__(self, examples: list[np.ndarray]) -> None:
        """`examples` are states of each task."""
        inputs = torch.cat([self._features(states) for states in examples])
        labels = torch.cat([torch.full((len(states),), label) for label, states in enumerate(examples)])
        targets = torch.nn.functional.one_hot(labels, len(examples)).to(inputs)
        ridge = RIDGE * len(inputs) * torch.eye(inputs.shape[1])  # constant pixels get no weight
        self.weights = torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ targets)

    @staticmethod
    def _features(states: np.ndarray) -> torch.Tensor:
        """Shrunk frames in [-1, 1], or vectors and their absolute values, which tell a number from one that is padding;
        and a one for the bias: (count, features)."""
        if states.ndim == 2:
            vectors = torch.from_numpy(states)
            return torch.cat([vectors, vectors.abs(), torch.ones(len(vectors), 1)], dim=1)
        frames = torch.from_numpy(states.astype(np.float32) / 127.5 - 1)
        side = min(CLASSIFIER_SIDE, frames.shape[-1])
        pixels = torch.nn.functional.adaptive_avg_pool2d(frames, side).flatten(1)
        return torch.cat([pixels, torch.ones(len(pixels), 1)], dim=1)

    def scores(self, states: np.ndarray) -> np.ndarray:
        """(count, tasks): near one for the state's own task, near zero for the others."""
        return (self._features(states) @ self.weights).numpy()

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return self.scores(states).argmax(axis=1)
