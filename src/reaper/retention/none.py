"""No retention: the lower baseline."""

from __future__ import annotations

from dataclasses import dataclass

from reaper.config.settings import Settings
from reaper.context import Context
from reaper.memory.items import StateSource
from reaper.memory.long_term import LongTermMemory
from reaper.networks.q_network import QNetwork
from reaper.retention.base import Knowledge, Recall, Remembered, Retention


@dataclass(frozen=True)
class NoRetention(Retention):
    """Passes on nothing but the agent."""

    needs_states = False

    def recall(self, context: Context, memory: LongTermMemory, knowledge: Knowledge, previous: QNetwork) -> Recall:
        return Recall()

    def remember(
        self, context: Context, memory: LongTermMemory | None, agent: QNetwork, new_states: StateSource
    ) -> Remembered:
        return Remembered()

    def num_bytes(self, settings: Settings, num_actions: int, num_tasks: int) -> int:
        return 0
