"""Elastic weight consolidation: weights that mattered to earlier tasks are held near where they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from reaper.config.settings import Settings
from reaper.context import Context
from reaper.equations import ewc_loss, fisher_diagonal, ltm_ewc_loss, min_max_normalise, oewc_fisher_update, oewc_loss
from reaper.learning.knowledge import Knowledge
from reaper.memory.items import StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.families import q_network_bytes
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Recall, Remembered, Retention
from reaper.state import State
from reaper.tasks.observation import state_spec

Weights = dict[str, torch.Tensor]


class RecalledPenalties(Recall):
    """One quadratic penalty for each (Fisher diagonal, anchor) pair."""

    def __init__(
        self,
        context: Context,
        strength: float,
        pairs: list[tuple[Weights, Weights]],
        penalty: Callable[..., torch.Tensor] = ewc_loss,
    ) -> None:
        self.strength, self.penalty = strength, penalty
        order = [name for name, _ in context.q_network(pairs[0][1]).named_parameters()]
        self.pairs = [tuple([part[name].to(context.device) for name in order] for part in pair) for pair in pairs]

    def combine(self, new_task, weights, answers=None, *known) -> torch.Tensor:  # noqa: ANN001
        penalties = torch.stack([self.penalty(fisher, weights, anchor) for fisher, anchor in self.pairs])
        return ltm_ewc_loss(new_task, penalties, self.strength)


class FisherSum:
    """The exact diagonal over 100 batches of the task's states, batch by batch."""

    def __init__(self, context: Context, agent: QNetwork, states: StateSource) -> None:
        self.context, self.agent, self.states = context, agent, states
        self.rng, self.done = context.rng("fisher"), 0
        self.total: Weights = {name: torch.zeros_like(p) for name, p in agent.named_parameters()}

    def run(self) -> Weights:
        context, batches = self.context, self.context.settings.ewc.fisher_batches
        context.checkpointer.register("fisher", self)
        context.progress.begin("Fisher matrix", batches, "batches", done=self.done)
        while self.done < batches:
            drawn = self.states.sample_states(context.settings.training.batch_size, self.rng)
            for name, value in self.of(drawn).items():
                self.total[name] = self.total[name] + value.detach() / batches
            self.done += 1
            context.progress.advance(1)
            context.checkpointer.maybe_save(1)
        return {name: value.detach().cpu() for name, value in self.total.items()}

    def of(self, states: torch.Tensor) -> Weights:
        """It is made layer by layer, so every layer has to be called, as it is not where frames are folded."""
        faster, self.agent.space_to_depth = self.agent.space_to_depth, False
        try:
            return fisher_diagonal(self.agent, states)
        finally:
            self.agent.space_to_depth = faster

    def state(self) -> State:
        return {"done": self.done, "total": self.total, "randomness": self.rng.state()}

    def restore(self, state: State) -> None:
        self.done = state["done"]
        self.total = {name: state["total"][name].to(value.device) for name, value in self.total.items()}
        self.rng.restore(state["randomness"])


def _network_bytes(settings: Settings, actions: int) -> int:
    return q_network_bytes(state_spec(settings.observation), actions, settings.network)


def _alike(part: Weights, agent: Weights) -> bool:
    return {name: t.shape for name, t in part.items()} == {name: t.shape for name, t in agent.items()}


@dataclass(frozen=True)
class EWC(Retention):
    """A Fisher diagonal and an anchor for every earlier task; the one method whose memory grows with the tasks."""

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        last = len(memory.tasks) - 1
        pairs = [
            (memory.part(f"fisher.{task}"), memory.part(f"anchor.{task}") if task < last else memory.agent)
            for task in range(len(memory.tasks))
        ]
        return RecalledPenalties(context, context.settings.ewc.ewc_lambda, pairs)

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        retained = dict(memory.retained) if memory else {}
        task = len(memory.tasks) if memory else 0
        if memory:  # the last anchor was the agent itself; now it has to be kept beside the new one
            retained |= {f"anchor.{task - 1}.{name}": value for name, value in memory.agent.items()}
        retained |= {
            f"fisher.{task}.{name}": value for name, value in FisherSum(context, agent, new_states).run().items()
        }
        return Remembered(retained)

    def lacks(self, context: Context, memory: LongTermMemory) -> str | None:
        last = len(memory.tasks) - 1
        parts = [memory.part(f"fisher.{task}") for task in range(last + 1)]
        parts += [memory.part(f"anchor.{task}") for task in range(last)]
        return None if all(_alike(part, memory.agent) for part in parts) else "a Fisher matrix of every task"

    def kept_bytes(self, settings: Settings, actions: int, tasks: int) -> int:
        return (2 * tasks - 1) * _network_bytes(settings, actions)


@dataclass(frozen=True)
class OnlineEWC(Retention):
    """One running Fisher diagonal, anchored at the latest agent."""

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        pairs = [(memory.part("fisher"), memory.agent)]
        return RecalledPenalties(context, context.settings.ewc.online_lambda, pairs, oewc_loss)

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        fisher = min_max_normalise(FisherSum(context, agent, new_states).run())
        if memory:
            fisher = oewc_fisher_update(memory.part("fisher"), fisher, context.settings.ewc.online_gamma)
        return Remembered({f"fisher.{name}": value for name, value in fisher.items()})

    def lacks(self, context: Context, memory: LongTermMemory) -> str | None:
        return None if _alike(memory.part("fisher"), memory.agent) else "a running Fisher matrix"

    def kept_bytes(self, settings: Settings, actions: int, tasks: int) -> int:
        return _network_bytes(settings, actions)
