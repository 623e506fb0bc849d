"""Evaluations that are outstanding: what a checkpoint holds, and what is sent to the evaluation process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from reaper.compute.optimiser import FlatWeights
from reaper.context import Context
from reaper.state import State


@dataclass
class EvalJob:
    """An agent as it was after so many agent steps, and the tasks that it is still to be evaluated on."""

    agent_steps: int
    tasks: list[str]
    weights: dict[str, torch.Tensor]  # on the CPU


def network_of(context: Context, job: EvalJob) -> torch.nn.Module:
    """The job's agent, in the memory layout of training, so that the same kernels round alike."""
    return FlatWeights(context.q_network(job.weights)).network


def jobs_to_state(jobs: Iterable[EvalJob]) -> State:
    return {f"{i}": {**vars(job), "tasks": list(job.tasks)} for i, job in enumerate(jobs)}


def jobs_from_state(state: State) -> list[EvalJob]:
    pending = state.get("pending", {})
    return [EvalJob(**pending[number]) for number in sorted(pending, key=int)]
