"""Elastic weight consolidation: a penalty keeps weights that matter to earlier tasks close to their old values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from reaper.config.fields import probability, setting
from reaper.config.settings import Settings
from reaper.context import Context
from reaper.equations import (
    FISHER_OUTPUTS,
    ewc_loss,
    fisher_diagonal,
    ltm_ewc_loss,
    min_max_normalise,
    oewc_fisher_update,
    oewc_loss,
)
from reaper.memory.items import StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.families import q_network_bytes
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Knowledge, Recall, Remembered, Retention
from reaper.state import State
from reaper.tasks.observation import state_spec

Weights = dict[str, torch.Tensor]


class RecalledPenalties(Recall):
    """One quadratic penalty per (Fisher diagonal, anchor) pair."""

    def __init__(
        self,
        context: Context,
        ewc_lambda: float,
        pairs: list[tuple[Weights, Weights]],
        penalty: Callable[..., torch.Tensor] = ewc_loss,
    ) -> None:
        self.ewc_lambda, self.penalty = ewc_lambda, penalty
        order = [name for name, _ in context.q_network(pairs[0][1]).named_parameters()]
        self.pairs = [tuple([part[name].to(context.device) for name in order] for part in pair) for pair in pairs]

    def combine(self, new_task, weights, outputs=None, *known) -> torch.Tensor:  # noqa: ANN001
        penalties = torch.stack([self.penalty(fisher, weights, anchor) for fisher, anchor in self.pairs])
        return ltm_ewc_loss(new_task, penalties, self.ewc_lambda)


class FisherSum:
    """The exact Fisher diagonal over batches of a task's states, accumulated batch by batch."""

    def __init__(self, context: Context, agent: QNetwork, states: StateSource, output: str = "linear") -> None:
        self.context, self.agent, self.states, self.output = context, agent, states, output
        self.rng, self.done = context.rng("fisher"), 0
        self.total: Weights = {name: torch.zeros_like(p) for name, p in agent.named_parameters()}

    def run(self) -> Weights:
        context, batches = self.context, self.context.settings.fisher.batches
        context.checkpointer.register("fisher", self)
        context.progress.begin("Fisher matrix", batches, "batches", done=self.done)
        while self.done < batches:
            states = self.states.sample_states(context.settings.training.batch_size, self.rng)
            for name, value in self.diagonal(states).items():
                self.total[name] = self.total[name] + value.detach() / batches
            self.done += 1
            context.progress.advance(1)
            context.checkpointer.maybe_save(1)
        return {name: value.detach().cpu() for name, value in self.total.items()}

    def diagonal(self, states: torch.Tensor) -> Weights:
        """The diagonal for one batch. It is computed layer by layer, so every layer has to be called, and the network
        must not use its space-to-depth form, which calls none of them."""
        before, self.agent.space_to_depth = self.agent.space_to_depth, False
        try:
            return fisher_diagonal(self.agent, states, self.output)
        finally:
            self.agent.space_to_depth = before

    def state(self) -> State:
        return {"done": self.done, "total": self.total, "randomness": self.rng.state()}

    def restore(self, state: State) -> None:
        self.done = state["done"]
        self.total = {name: state["total"][name].to(value.device) for name, value in self.total.items()}
        self.rng.restore(state["randomness"])


def _network_bytes(settings: Settings, num_actions: int) -> int:
    return q_network_bytes(state_spec(settings.observation), num_actions, settings.network)


def _same_shapes(part: Weights, agent: Weights) -> bool:
    return {name: t.shape for name, t in part.items()} == {name: t.shape for name, t in agent.items()}


@dataclass(frozen=True)
class WeightPenalty(Retention):
    """What both variants of EWC have in common: the Fisher matrix."""

    measures_fisher = True
    fisher_output: str = setting(
        "linear",
        "output layer that the Fisher matrix is of; softmax in conditions that retain a policy",
        choices=tuple(FISHER_OUTPUTS),
    )

    def settings_for(self, knowledge: Knowledge) -> dict[str, Any]:
        return {"fisher_output": knowledge.output} if knowledge.output != "linear" else {}

    def conflict_with(self, before: Retention) -> str | None:
        if not isinstance(before, WeightPenalty) or before.fisher_output == self.fisher_output:
            return None
        return f"Fisher matrices of {before.fisher_output} outputs, and it measures {self.fisher_output} outputs"

    def measure(self, context: Context, agent: QNetwork, states: StateSource) -> Weights:
        """The Fisher diagonal of an agent."""
        return FisherSum(context, agent, states, self.fisher_output).run()


@dataclass(frozen=True)
class EWC(WeightPenalty):
    """A Fisher diagonal and an anchor per earlier task; the one method whose memory grows with the tasks."""

    ewc_lambda: float = setting(300.0, "weight of the penalty", minimum=0, from_second_task=True)

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        last = len(memory.tasks) - 1
        pairs = [
            (memory.part(f"fisher.{task}"), memory.part(f"anchor.{task}") if task < last else memory.agent)
            for task in range(len(memory.tasks))
        ]
        return RecalledPenalties(context, self.ewc_lambda, pairs)

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        retained = dict(memory.retained) if memory else {}
        task = len(memory.tasks) if memory else 0
        if memory:  # the last anchor was the agent itself; from now on it is stored alongside the new agent
            retained |= {f"anchor.{task - 1}.{name}": value for name, value in memory.agent.items()}
        fisher = self.measure(context, agent, new_states)
        retained |= {f"fisher.{task}.{name}": value for name, value in fisher.items()}
        return Remembered(retained)

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        last = len(memory.tasks) - 1
        parts = [memory.part(f"fisher.{task}") for task in range(last + 1)]
        parts += [memory.part(f"anchor.{task}") for task in range(last)]
        return None if all(_same_shapes(part, memory.agent) for part in parts) else "a Fisher matrix of every task"

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        return (2 * num_tasks - 1) * _network_bytes(settings, num_actions)


@dataclass(frozen=True)
class OnlineEWC(WeightPenalty):
    """One running Fisher diagonal, anchored at the latest agent."""

    ewc_lambda: float = setting(75.0, "weight of the penalty", minimum=0, from_second_task=True)
    gamma: float = probability(0.99, "decay of the running Fisher matrix per task", from_second_task=True)

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        pairs = [(memory.part("fisher"), memory.agent)]
        return RecalledPenalties(context, self.ewc_lambda, pairs, oewc_loss)

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        fisher = min_max_normalise(self.measure(context, agent, new_states))
        if memory:
            fisher = oewc_fisher_update(memory.part("fisher"), fisher, self.gamma)
        return Remembered({f"fisher.{name}": value for name, value in fisher.items()})

    def missing_from(self, context: Context, memory: LongTermMemory) -> str | None:
        return None if _same_shapes(memory.part("fisher"), memory.agent) else "a running Fisher matrix"

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        return _network_bytes(settings, num_actions)
