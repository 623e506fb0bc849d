"""A measured speed, and the names under which `reaper bench` reports it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

BARE_EMULATION = "bare emulation"
SHORT_TERM = "short-term training"
LONG_TERM = "long-term training"
GENERATOR = "generator training"
GENERATION = "generation"
EVALUATION = "evaluation"
CHECKPOINT = "checkpoint"
# With evaluations in a process of their own, each slows the other down.
TRAINING_WITH_EVALUATION = "training during an evaluation"
EVALUATION_WITH_TRAINING = "evaluation during training"
GENERATOR_WITH_EVALUATIONS = "generator training during evaluations"
EVALUATIONS_WITH_GENERATOR = "evaluations during generator training"


@dataclass(frozen=True)
class Measurement:
    """A speed in units per second, once per repeat; `shares` compare each repeat with a reference."""

    what: str
    task: str  # empty if the speed does not depend on the task
    unit: str
    rates: tuple[float, ...]
    shares: tuple[float, ...] = ()
    of: str = BARE_EMULATION  # the reference of the shares

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def share(self) -> float | None:
        return statistics.median(self.shares) if self.shares else None

    def __str__(self) -> str:
        share = f", {self.share:.2f} of {self.of}" if self.share else ""
        return f"{self.what} {self.task}: {self.rate:,.0f} {self.unit}/s{share}"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "rate": self.rate, "share": self.share}
