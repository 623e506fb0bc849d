"""Evaluation episodes: a fixed epsilon, and returns that are never clipped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from reaper.context import Context
from reaper.learning.actor import new_actor
from reaper.tasks.task import Task, VectorTask

Row = dict[str, Any]  # one evaluation: task, agent steps, scores


def running_returns(
    context: Context,
    network: torch.nn.Module | None,
    task: Task,
    names: tuple[str | int, ...],
    envs: VectorTask | None = None,
) -> Iterator[tuple[np.ndarray, int]]:
    """Yields running returns for one episode per environment, and how many of the episodes are done.

    Without a network, actions are random. `names` set the random streams apart. Environments that are passed in stay
    open.
    """
    settings, own = context.settings.evaluation, envs is None
    envs = envs or context.open(task, settings.episodes)
    actor = new_actor(context, envs, compiled=False)
    rng = context.cpu_rng("evaluation", task.name, *names)
    actor.reset(context.derive_seed("evaluation games", task.name, *names))  # the key of a random stream
    returns, steps = np.zeros(settings.episodes), 0
    running = np.ones(settings.episodes, dtype=bool)
    try:
        while running.any():
            actor.act(network, settings.epsilon if network else 1.0, rng)
            step = actor.observe().step
            returns += np.where(running, step.rewards, 0.0)
            steps += 1
            running &= ~step.done & (steps != settings.max_steps)
            context.checkpointer.maybe_save()
            yield returns, int((~running).sum())
    finally:
        actor.leave()
        if own:
            envs.close()


def evaluate(
    context: Context, network: torch.nn.Module | None, task: Task, agent_steps: int, envs: VectorTask | None = None
) -> Row:
    """The scores of a network on a task after so many agent steps."""
    progress, scores = context.progress, []
    with progress.subphase(f"evaluate {task.title}", context.settings.evaluation.episodes, "episodes"):
        for returns, done in running_returns(context, network, task, (agent_steps,), envs):
            scores = returns.tolist()
            progress.advance(done - progress.done, score=float(returns.mean()))  # episodes may all end at the same time
    return {"task": task.name, "agent_steps": agent_steps, "scores": scores}


class Pace(NamedTuple):
    """How fast an evaluation runs."""

    startup: float  # seconds until the first step was done: opening and resetting the environments
    steps: int  # of all environments together, after the first
    seconds: float  # that these took
    whole: bool  # whether all episodes were done before the time limit


def measure_pace(
    context: Context, network: torch.nn.Module, task: Task, seconds: float, envs: VectorTask | None = None
) -> Pace:
    """Evaluates for so many seconds after the first step, or until all episodes are done."""
    start = first = now = time.perf_counter()
    steps = -1
    for _ in running_returns(context, network, task, ("pace",), envs):
        steps, now = steps + 1, time.perf_counter()
        first = first if steps else now
        if steps and now - first > seconds:
            return Pace(first - start, steps, now - first, False)
    return Pace(first - start, steps, now - first, True)
