"""Evaluations during training: at a fixed interval, whole episodes of every task learnt so far.

On a CPU, and for small networks anywhere, training waits for them. With a large network on a GPU they run in a process
of their own, from a copy of the weights, while training continues. Their results are the same function of seed,
weights, task and agent steps either way, up to the rounding of the device.
"""

from __future__ import annotations

import torch

from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.learning.evaluation.base import Evaluator
from reaper.learning.evaluation.blocking import BlockingEvaluator
from reaper.learning.evaluation.concurrent import ConcurrentEvaluator
from reaper.tasks.observation import state_spec


def worth_concurrent_eval(settings: Settings, device: torch.device) -> bool:
    """Whether a process for evaluations pays. Episodes of small environments end before it has started, and on a CPU
    training leaves no core idle."""
    return device.type == "cuda" and not is_small(state_spec(settings.observation))


def new_evaluator(context: Context, network: torch.nn.Module) -> Evaluator:
    return (ConcurrentEvaluator if context.concurrent_eval else BlockingEvaluator)(context, network)
