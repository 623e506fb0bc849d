"""What generated states are good for: measures of a generator that predict how much of each task it will retain.

A generator made after some task is judged by the long-term agent of that moment, whose knowledge it is to carry on:

    agreement    an agent that has lost part of its weights is taught its former values on generated states alone; how
                 good its actions then are in real states of the task: 1 as before, 0 as random ones
    share        of all generated states that look like the task
    purity       of those, how many the task classifier takes for this task by a clear margin
    precision    of those, how many are as close to a real state as real states are to each other, in the agent's
                 features (Kynkaanniemi et al. 2019)
    recall       of real states, how many are as close to a generated state

The next consolidation rehearses these states, so its loss of score is what the measures should predict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from reaper.context import Context
from reaper.equations import distill_loss
from reaper.generators import generator_for
from reaper.generators.base import FittedGenerator
from reaper.networks.q_network import QNetwork
from reaper.report.generated_states import TaskClassifier
from reaper.report.real_states import RealStates, context_of, read_real_states
from reaper.results.runs import RunResult
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Store
from reaper.tasks.sequence import find_task

GENERATED, COMPARED, NEIGHBOURS = 4_000, 400, 5  # states that teach the student; that are compared; size of a ball
UPDATES, BATCH, LEARNING_RATE = 1_000, 32, 5e-4  # of the student
LEFT = 0.7  # of the agent's weights; the rest is a fresh network's
MARGIN = 0.3  # between the classifier's two largest outputs, which are near 0 and 1 on real states
MEASURES = ("agreement", "share", "purity", "precision", "recall")


@dataclass(frozen=True)
class TaskQuality:
    """What one generator is worth for one task. NaN: it generated no state of that task."""

    condition: str
    seed: int
    after: int  # how many tasks the generator knows
    task: str
    agreement: float
    share: float
    purity: float
    precision: float
    recall: float
    before: float  # normalised score of the agent whose generator this is
    kept: float  # and of the next agent, which rehearsed its states; NaN if there is none


def measure_run(store: Store, run: RunResult) -> Iterator[TaskQuality]:
    """Every generator of a run, on every task that it knows."""
    real, _ = read_real_states(store, run)
    context = context_of(run)
    for number, digest in enumerate(run.record.memories):
        memory = store.stage(digest) if store.has(digest) else None
        weights = read_memory(memory).part("generator") if memory and memory.has("retained.safetensors") else None
        known = [states for states in real[: number + 1] if states]
        if memory is None or not weights or len(known) <= number:
            continue
        agent = context.q_network(memory.tensors("agent")).eval()
        generator = generator_for(context.settings).load(context, weights)
        actions = [find_task(task).num_actions for task in run.tasks[: number + 1]]
        measured = measure_generator(context, generator, agent, known, actions)
        after = run.matrix[number + 1] if number + 1 < len(run.matrix) else np.full(len(run.tasks), np.nan)
        for place, values in enumerate(measured):
            scores = {"before": float(run.matrix[number, place]), "kept": float(after[place])}
            yield TaskQuality(run.name, run.seed, number + 1, run.tasks[place], **values, **scores)


def measure_generator(
    context: Context,
    generator: FittedGenerator,
    agent: QNetwork,
    real: Sequence[RealStates],
    num_actions: Sequence[int],
) -> list[dict[str, float]]:
    """The measures of a generator for each task, given real states of each and how many actions it has."""
    generated = generator.sample(GENERATED, context.rng("generator quality"))
    student = teach_student(context, generated, agent)
    scores = TaskClassifier([states.train for states in real]).scores(generated.cpu().numpy())
    labels = scores.argmax(axis=1)
    top = np.sort(np.pad(scores, ((0, 0), (1, 0))), axis=1)
    clear = top[:, -1] - top[:, -2] > MARGIN
    found = []
    for place, states in enumerate(real):
        chosen, held_out = generated[torch.from_numpy(labels == place)][:COMPARED], torch.from_numpy(states.held_out)
        balls = [features(agent, each) for each in (torch.from_numpy(states.train)[-COMPARED:], chosen)]
        found.append(
            {
                "agreement": agreement(student, agent, held_out, num_actions[place]),
                "share": float((labels == place).mean()),
                "purity": float(clear[labels == place].mean()) if len(chosen) else np.nan,
                "precision": covered(balls[0], features(agent, chosen)),
                "recall": covered(balls[1], features(agent, held_out[:COMPARED])),
            }
        )
    return found


def teach_student(context: Context, states: torch.Tensor, agent: QNetwork) -> QNetwork:
    """An agent that has lost part of its weights, taught its former values on these states, as consolidation does."""
    student, rng = context.q_network(), context.rng("generator quality", "batches")
    with torch.no_grad():
        for ours, theirs in zip(student.parameters(), agent.parameters(), strict=True):
            ours.copy_(LEFT * theirs + (1 - LEFT) * ours)
    optimiser = torch.optim.Adam(student.parameters(), LEARNING_RATE)
    for _ in range(UPDATES):
        batch = states[torch.randint(len(states), (BATCH,), generator=rng, device=states.device)]
        with torch.no_grad():
            targets = agent(batch)
        loss = distill_loss(student(batch), targets).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return student.eval()


@torch.no_grad()
def agreement(student: QNetwork, agent: QNetwork, states: torch.Tensor, num_actions: int) -> float:
    """The share of the agent's advantage over random actions that the student's actions have, by the agent's values.
    Where all actions are equally good, it does not matter which of them the student prefers."""
    values = agent(states)[:, :num_actions]
    chosen = values.gather(1, student(states)[:, :num_actions].argmax(dim=1, keepdim=True)).squeeze(1)
    random = values.mean(dim=1)
    return float((chosen - random).sum() / (values.amax(dim=1) - random).sum())


@torch.no_grad()
def features(agent: QNetwork, states: torch.Tensor) -> torch.Tensor:
    """What the agent's last layer sees of states: (N, features)."""
    seen: list[torch.Tensor] = []
    hook = agent.get_submodule("values").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    before, agent.space_to_depth = agent.space_to_depth, False  # its other form calls no layer
    try:
        agent(states)
    finally:
        hook.remove()
        agent.space_to_depth = before
    return seen[0]


def covered(known: torch.Tensor, points: torch.Tensor) -> float:
    """The share of points that lie within a ball around a known one; its radius is the distance to the known point's
    fifth neighbour. NaN without points, 0 without balls."""
    if not len(points):
        return float("nan")
    if len(known) <= NEIGHBOURS:
        return 0.0
    radii = torch.cdist(known, known).kthvalue(NEIGHBOURS + 1, dim=1).values  # the first neighbour is the point itself
    return float((torch.cdist(points, known) <= radii).any(dim=1).float().mean())


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation of the pairs without NaN; NaN for fewer than three."""
    pairs = np.array([pair for pair in zip(a, b, strict=True) if np.isfinite(pair).all()])
    if len(pairs) < 3:
        return float("nan")
    ranks = [_ranks(column) for column in pairs.T]
    deviations = [rank - rank.mean() for rank in ranks]
    length = np.sqrt(np.prod([(deviation**2).sum() for deviation in deviations]))
    return float(deviations[0] @ deviations[1] / length) if length else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    """From one; equal values share their mean rank."""
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])
