"""Evaluation: whole games at a fixed rate of exploration, scores never clipped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from reaper.context import Context
from reaper.learning.actor import Player
from reaper.tasks.task import Task, VectorTask


def steps_of_whole_games(
    context: Context,
    network: torch.nn.Module | None,
    task: Task,
    names: tuple[str | int, ...],
    opened: VectorTask | None = None,
) -> Iterator[tuple[np.ndarray, int]]:
    """Each game's first whole game, all played at once, step by step: the scores so far, and how many games are over.
    Without a network, random actions. Games that are `opened` already stay open."""
    settings = context.settings.evaluation
    games = opened or context.open(task, settings.games)
    player = Player(games, context.settings.frames.history, context.actions, context.device)
    randomness = context.dice("evaluation", task.name, *names)
    player.begin(context.derive_seed("evaluation games", task.name, *names))
    totals = np.zeros(settings.games)
    playing = np.ones(settings.games, dtype=bool)
    try:
        while playing.any():
            player.send(network, settings.exploration if network else 1.0, randomness)
            step = player.receive()
            totals += np.where(playing, step.rewards, 0.0)
            playing &= ~step.ended
            context.keeper.reached()
            yield totals, int((~playing).sum())
    finally:
        player.rest()
        if opened is None:
            games.close()


class Pace(NamedTuple):
    """How quickly whole games are played."""

    beginning: float  # seconds until the first step was done: opening the games, starting them
    steps: int  # of all games, after the first
    seconds: float  # that these took
    whole: bool  # whether the games were over before the time was


def pace_of_whole_games(
    context: Context, network: torch.nn.Module, task: Task, seconds: float, opened: VectorTask | None = None
) -> Pace:
    """Plays for so many seconds after the first step, or until all games are over."""
    start = first = now = time.perf_counter()
    steps = -1
    for _ in steps_of_whole_games(context, network, task, ("pace",), opened):
        steps, now = steps + 1, time.perf_counter()
        first = first if steps else now
        if steps and now - first > seconds:
            return Pace(first - start, steps, now - first, False)
    return Pace(first - start, steps, now - first, True)


def evaluate(
    context: Context,
    network: torch.nn.Module | None,
    task: Task,
    observed_frames: int,
    opened: VectorTask | None = None,
) -> dict[str, object]:
    """One row of results: what the network scores on a task after so many observed frames."""
    progress, scores = context.progress, []
    with progress.aside(f"test {task.title}", context.settings.evaluation.games, "games"):
        for totals, over in steps_of_whole_games(context, network, task, (observed_frames,), opened):
            scores = totals.tolist()
            progress.advance(over - progress.done)
    return {"task": task.name, "observed_frames": observed_frames, "scores": scores}
