"""Teachers: what consolidation needs of whoever knows the new task.

Our short-term DQN is one, an agent trained elsewhere (reaper/teachers) another. To add a kind, implement `Teacher` in a
new file and register a function that loads it:

    TEACHERS["mine"] = load_my_teacher        # (context, tensors, document) -> Teacher

A stage that results in a teacher states its source in its document `values`; without one it is a DQN of ours. To read
another file format, add a row to reaper/teachers/sources.py instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import torch

from reaper.compute.compilation import forward
from reaper.context import Context
from reaper.networks.residual import is_residual
from reaper.plugins import Registry
from reaper.tasks.sequence import find_task
from reaper.teachers.fitting import FittedTeacher, TaskInSequence, fit

OutputKind = Literal["values", "logits"]  # Q-values, or unnormalised log-probabilities of actions


class Teacher(Protocol):
    """An agent that knows one task."""

    kind: OutputKind  # what its outputs are
    value_mean: float  # of its outputs over states that it visits, for conditions that standardise them
    value_std: float
    advantage_std: float  # of what of its outputs differs between actions

    @property
    def policy(self) -> torch.nn.Module:
        """States -> one number per action, of which the largest is the best action; collects experience."""
        ...

    def outputs(self, states: torch.Tensor) -> torch.Tensor:
        """(N, *observation.shape) -> (N, num_actions), without gradients."""
        ...

    def state(self) -> dict[str, torch.Tensor] | None:
        """The weights of a Q-network like the long-term agent's, which it then begins as; None if it is another."""
        ...


class NetworkTeacher:
    """What teachers with a network have in common."""

    def __init__(self, context: Context, network: torch.nn.Module, compute_dtype: torch.dtype | None = None) -> None:
        self.network, self._forward, self.compute_dtype = network, context.compile(forward), compute_dtype

    @property
    def policy(self) -> torch.nn.Module:
        return self.network

    @torch.no_grad()
    def outputs(self, states: torch.Tensor) -> torch.Tensor:
        return self._forward(self.network, states, self.compute_dtype)


class DQNTeacher(NetworkTeacher):
    """A DQN that short-term learning has trained."""

    kind: OutputKind = "values"

    def __init__(
        self,
        context: Context,
        weights: dict[str, torch.Tensor],
        value_mean: float,
        value_std: float,
        *,
        advantage_std: float | None = None,
    ) -> None:
        self.weights, self.value_mean, self.value_std = weights, value_mean, value_std
        self.advantage_std = value_std if advantage_std is None else advantage_std
        # A CPU spends most of a consolidation on a residual teacher's outputs. Gain: 10 instead of 30 ms for 32 states,
        # on two cores of an AMD EPYC; in Pong, advantages then have an error of 0.5 %.
        faster = context.device.type == "cpu" and is_residual(weights)
        super().__init__(context, context.q_network(weights), context.compute_dtype if faster else None)

    def state(self) -> dict[str, torch.Tensor] | None:
        return None if is_residual(self.weights) else self.weights


class ExternalTeacher(NetworkTeacher):
    """An agent that was trained elsewhere, fitted to the sequence. Its network is no Q-network of ours, so the first
    long-term agent has to learn from it, too."""

    def __init__(self, context: Context, network: FittedTeacher, kind: OutputKind, measured: Mapping[str, Any]) -> None:
        """`measured` are the statistics of its outputs, once there are any."""
        self.kind: OutputKind = kind
        self.value_mean, self.value_std = measured.get("mean", 0.0), measured.get("deviation", 1.0)
        self.advantage_std = measured.get("advantage_deviation", self.value_std)
        super().__init__(context, network.to(context.device))

    def state(self) -> None:
        return None


Tensors = dict[str, torch.Tensor]
TeacherSource = Callable[[Context, Tensors, Mapping[str, Any]], Teacher]  # (context, weights, document) -> a teacher


def load_dqn(context: Context, tensors: Tensors, document: Mapping[str, Any]) -> DQNTeacher:
    advantage_std = document.get("advantage_deviation")  # teachers of 0.2 do not state it
    return DQNTeacher(context, tensors, document["mean"], document["deviation"], advantage_std=advantage_std)


def load_external(context: Context, tensors: Tensors, document: Mapping[str, Any]) -> ExternalTeacher:
    network, task = document["network"], find_task(document["task"])
    scale = context.settings.scales.get(task.name)
    fitted = fit(network, tensors, TaskInSequence(task, context.observation, context.num_actions, scale))
    return ExternalTeacher(context, fitted, network["outputs"], document)


DQN, EXTERNAL = "dqn", "external"
TEACHERS: Registry[TeacherSource] = Registry("teacher", "reaper.teachers")
TEACHERS[DQN] = load_dqn
TEACHERS[EXTERNAL] = load_external


def load_teacher(context: Context, tensors: Tensors, document: Mapping[str, Any]) -> Teacher:
    """The teacher that a stage resulted in, from its tensors and its document `values`."""
    return TEACHERS[document.get("source", DQN)](context, tensors, document)
