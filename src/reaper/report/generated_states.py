"""What a generator dreams of: whose states they are, and whether they are copies of real ones."""

from __future__ import annotations

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

FORMAT = 1  # of what is kept; another one makes it anew
DREAMS, AT_ONCE, COMPARED, SHOWN = 250, 50, 200, 7
SIDE, RIDGE = 21, 1e-2  # of the classifier: the pixels that frames are shrunk to, and its penalty on weights


@dataclass(frozen=True)
class GeneratedStates:
    """Of one run; states are (count, history, size, size), tasks those whose real states are known."""

    condition: str
    seed: int
    titles: list[str]  # of those tasks
    stages: list[str]  # after which a generator was kept: titles of tasks
    accuracy: float  # of the classifier, on real states it was not trained on
    shares: np.ndarray  # (stages, tasks): of each generator's dreams
    real: list[np.ndarray]  # some real states of each task
    dreamt: list[np.ndarray]  # some dreams of the last generator that look like each task; maybe none
    closest: np.ndarray  # the dreams of the last generator that come closest to a real state
    neighbours: np.ndarray  # those real states
    distance: float  # from a dream to the nearest real state: the median
    real_distance: float  # from a real state of another game to the nearest: the median
    remarks: list[str]


def read_generated_states(store: Store, condition: ConditionScores, kept: ReportCache) -> GeneratedStates | None:
    """Of the first seed that has a generator; None where there is none."""
    for run in condition.runs:
        if _generators(store, run):
            inputs = {"format": FORMAT, "teachers": _finished(store, run, "teachers")}
            inputs["memories"] = _finished(store, run, "memories")
            value = kept.get("dreams", inputs, lambda run=run: _examine(store, run, kept))
            with kept.read("dream"):
                return _read(run, value) if value["shares"] else None
    return None


def _finished(store: Store, run: RunResult, role: str) -> list[str]:
    return [digest for digest in run.record.of_role(role) if store.has(digest)]


def _generators(store: Store, run: RunResult) -> dict[int, str]:
    """Place of a task -> digest of a memory that can dream or has kept dreams."""
    return {
        place: digest
        for place, digest in enumerate(run.record.memories)
        if store.has(digest) and stored_states(store.stage(digest), "dreamt") is not None
    }


def _read(run: RunResult, value: dict[str, Any]) -> GeneratedStates:
    return GeneratedStates(
        run.name,
        run.seed,
        [run.titles[place] for place in value["tasks"]],
        [run.titles[place] for place in value["stages"]],
        float(value["accuracy"]),
        np.array(value["shares"], dtype=float),
        [decode_array(states) for states in value["real"]],
        [decode_array(states) for states in value["dreamt"]],
        decode_array(value["closest"]),
        decode_array(value["neighbours"]),
        float(value["distance"]),
        float(value["real_distance"]),
        list(map(str, value["remarks"])),
    )


def _examine(store: Store, run: RunResult, kept: ReportCache) -> dict[str, Any]:
    same = tuple(run.record.teachers)  # conditions of one seed have the same teachers
    states, remarks = kept.once(("states", same), lambda: read_real_states(store, run))
    tasks = [place for place, real in enumerate(states) if real]
    known = [real for real in states if real]
    if not known:
        return {"shares": []}
    judge = kept.once(("judge", same), lambda: TaskClassifier([real.train for real in known]))
    accuracy = np.mean([(judge(real.test) == label).mean() for label, real in enumerate(known)])
    stages = _generators(store, run)
    dreamt = [_dream(store, run, digest) for digest in stages.values()]
    verdicts = [judge(dreams) for dreams in dreamt]
    last = dreamt[-1]
    return {
        "tasks": tasks,
        "stages": list(stages),
        "accuracy": float(accuracy),
        "shares": [[float((labels == label).mean()) for label in range(len(known))] for labels in verdicts],
        "real": [encode_array(_spread(real.train)) for real in known],
        "dreamt": [encode_array(last[verdicts[-1] == label][:SHOWN]) for label in range(len(known))],
        **_compare(last[:COMPARED], known),
        "remarks": remarks,
    }


def _spread(states: np.ndarray) -> np.ndarray:
    """Some states, from the beginning of what was played to its end."""
    return states[np.linspace(0, len(states) - 1, SHOWN).astype(int)]


def _dream(store: Store, run: RunResult, digest: str) -> np.ndarray:
    """Fresh dreams of a kept generator; without its weights, those that were kept as pictures."""
    artefact = store.stage(digest)
    weights = read_memory(artefact).part("generator") if artefact.has("retained.safetensors") else None
    if not weights:
        pictures = stored_states(artefact, "dreamt")
        assert pictures is not None
        return pictures
    context = context_of(run)
    generator = generator_for(context.settings).load(context, weights)
    return generator.sample(DREAMS, context.rng("dreams"), AT_ONCE).cpu().numpy()


def _compare(dreamt: np.ndarray, known: list[RealStates]) -> dict[str, Any]:
    real = np.concatenate([states.train for states in known])
    others = np.concatenate([states.test for states in known])
    distances, nearest = nearest_states(dreamt, real)
    closest = np.argsort(distances, kind="stable")[:SHOWN]
    return {
        "closest": encode_array(dreamt[closest]),
        "neighbours": encode_array(real[nearest[closest]]),
        "distance": float(np.median(distances)),
        "real_distance": float(np.median(nearest_states(others[:: max(1, len(others) // COMPARED)], real)[0])),
    }


def nearest_states(states: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each state, the root mean square difference in grey levels to the nearest real one, and which that is."""
    ours, theirs = (torch.from_numpy(array.reshape(len(array), -1).astype(np.float32)) for array in (states, real))
    squares, nearest = torch.cdist(ours, theirs, compute_mode="use_mm_for_euclid_dist").min(dim=1)
    del squares  # rounded, and worst near zero; what was found is measured again, exactly
    differences = ours - theirs[nearest]
    return differences.square().mean(dim=1).sqrt().numpy(), nearest.numpy()


class TaskClassifier:
    """A small classifier of states, linear in their pixels: which task do they show?"""

    def __init__(self, examples: list[np.ndarray]) -> None:
        inputs = torch.cat([self._features(states) for states in examples])
        labels = torch.cat([torch.full((len(states),), label) for label, states in enumerate(examples)])
        targets = torch.nn.functional.one_hot(labels, len(examples)).to(inputs)
        ridge = RIDGE * len(inputs) * torch.eye(inputs.shape[1])  # keeps pixels that never change from mattering
        self.weights = torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ targets)

    @staticmethod
    def _features(states: np.ndarray) -> torch.Tensor:
        """Shrunk frames in [-1, 1], and a one for the bias: (count, features)."""
        frames = torch.from_numpy(states.astype(np.float32) / 127.5 - 1)
        side = min(SIDE, frames.shape[-1])
        pixels = torch.nn.functional.adaptive_avg_pool2d(frames, side).flatten(1)
        return torch.cat([pixels, torch.ones(len(pixels), 1)], dim=1)

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return (self._features(states) @ self.weights).argmax(dim=1).numpy()
