"""Evaluation: whole games at a fixed rate of exploration, scores never clipped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from reaper.context import Context
from reaper.learning.actor import Actor
from reaper.tasks.task import Task, VectorTask


def episode_steps(
    context: Context,
    network: torch.nn.Module | None,
    task: Task,
    names: tuple[str | int, ...],
    opened: VectorTask | None = None,
) -> Iterator[tuple[np.ndarray, int]]:
    """Each game's first whole game, all played at once, step by step: the scores so far, and how many games are over.
    Without a network, random actions. Games that are `opened` already stay open."""
    settings = context.settings.evaluation
    games = opened or context.open(task, settings.episodes)
    actor = Actor(games, context.settings.observation.frame_stack, context.num_actions, context.device)
    rng = context.cpu_rng("evaluation", task.name, *names)
    actor.begin(context.derive_seed("evaluation games", task.name, *names))
    totals = np.zeros(settings.episodes)
    playing = np.ones(settings.episodes, dtype=bool)
    try:
        while playing.any():
            actor.send(network, settings.epsilon if network else 1.0, rng)
            step = actor.receive()
            totals += np.where(playing, step.rewards, 0.0)
            playing &= ~step.done
            context.checkpointer.maybe_save()
            yield totals, int((~playing).sum())
    finally:
        actor.rest()
        if opened is None:
            games.close()


class Pace(NamedTuple):
    """How quickly whole games are played."""

    beginning: float  # seconds until the first step was done: opening the games, starting them
    steps: int  # of all games, after the first
    seconds: float  # that these took
    whole: bool  # whether the games were over before the time was


def measure_pace(
    context: Context, network: torch.nn.Module, task: Task, seconds: float, opened: VectorTask | None = None
) -> Pace:
    """Plays for so many seconds after the first step, or until all games are over."""
    start = first = now = time.perf_counter()
    steps = -1
    for _ in episode_steps(context, network, task, ("pace",), opened):
        steps, now = steps + 1, time.perf_counter()
        first = first if steps else now
        if steps and now - first > seconds:
            return Pace(first - start, steps, now - first, False)
    return Pace(first - start, steps, now - first, True)


def evaluate(
    context: Context,
    network: torch.nn.Module | None,
    task: Task,
    agent_steps: int,
    opened: VectorTask | None = None,
) -> dict[str, object]:
    """One row of results: what the network scores on a task after so many agent steps."""
    progress, scores = context.progress, []
    with progress.subphase(f"test {task.title}", context.settings.evaluation.episodes, "games"):
        for totals, over in episode_steps(context, network, task, (agent_steps,), opened):
            scores = totals.tolist()
            progress.advance(over - progress.done)
    return {"task": task.name, "agent_steps": agent_steps, "scores": scores}
