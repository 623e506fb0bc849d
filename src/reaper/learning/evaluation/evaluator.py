"""Evaluations during training: at a fixed interval, whole episodes of every task learnt so far.

On a CPU, and for small networks anywhere, training waits for them. With the agent's network for large images on a GPU
they run in a process of their own, on CPU cores, from a copy of the weights, while training continues. A residual
network is too much for that: on a busy machine a run waited 12 minutes for 60 episodes of Breakout after 7 minutes of
training. There, too, training waits, and the GPU evaluates. Results are the same function of seed, weights, task and
agent steps either way, up to the rounding of the device.
"""

from __future__ import annotations

import torch

from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.learning.evaluation.base import Evaluator
from reaper.learning.evaluation.blocking import BlockingEvaluator
from reaper.learning.evaluation.concurrent import ConcurrentEvaluator
from reaper.networks.residual import is_residual
from reaper.tasks.observation import state_spec


def worth_concurrent_eval(settings: Settings, device: torch.device) -> bool:
    """Whether a process for evaluations pays. Episodes of small environments end before it has started, and on a CPU
    training leaves no core idle."""
    return device.type == "cuda" and not is_small(state_spec(settings.observation))


def new_evaluator(context: Context, network: torch.nn.Module) -> Evaluator:
    concurrent = context.concurrent_eval and not is_residual(network.state_dict())
    return (ConcurrentEvaluator if concurrent else BlockingEvaluator)(context, network)
