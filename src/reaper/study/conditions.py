"""The table of conditions: each is a point on four axes, and nothing anywhere asks for a condition's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reaper.learning.knowledge import Knowledge, Policy, QValues, StandardisedQValues
from reaper.learning.objectives import Distillation, GeneratedDistillation, Objective, QLearningObjective, SingleTask
from reaper.plugins import Registry
from reaper.retention import (
    EWC,
    RETENTIONS,
    CompressedRehearsal,
    NoRetention,
    OnlineEWC,
    PseudoRehearsal,
    Rehearsal,
    Retention,
    UntrainedDreams,
)

OBJECTIVES: dict[str, type[Objective]] = {
    "distillation": Distillation,
    "generated distillation": GeneratedDistillation,
    "q-learning": QLearningObjective,
    "single-task": SingleTask,
}
KNOWLEDGE: dict[str, type[Knowledge]] = {
    "Q-values": QValues,
    "standardised Q-values": StandardisedQValues,
    "policy": Policy,
}


@dataclass(frozen=True)
class Condition:
    """How a sequence of tasks is learnt."""

    name: str
    objective: str
    retention: Retention
    knowledge: str = "Q-values"
    variant: str = "main"  # of the scale: main, extended, short
    reverse: bool = False  # the tasks in the opposite order
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of this condition alone
    about: str = ""
    base: str = ""  # of which condition this is one point of a sweep; such a point is in no table of conditions

    @property
    def teaches(self) -> Objective:
        return OBJECTIVES[self.objective]()

    def describe(self) -> dict[str, Any]:
        """The axes as plain values, as `reaper conditions --json` prints them."""
        return {
            "name": self.name,
            "objective": self.objective,
            "retention": RETENTIONS.describe(self.retention),
            "knowledge": self.knowledge,
            "preset_variant": self.variant,
            "reverse": self.reverse,
            "overrides": dict(self.overrides),
            "about": self.about,
            "base": self.base,
        }

    def at(self, label: str, overrides: Mapping[str, Any]) -> Condition:
        """One point of a sweep over settings: `RePR alpha=0.75`."""
        about = f"{self.name} with {label}"
        overrides = {**self.overrides, **overrides}
        return replace(self, name=f"{self.name} {label}", base=self.name, overrides=overrides, about=about)


CONDITIONS: Registry[Condition] = Registry("condition", "reaper.conditions")


def register_condition(condition: Condition) -> None:
    """Adds a row to the table."""
    CONDITIONS[condition.name] = condition


def _row(name: str, objective: str, retention: Retention, about: str, **axes: Any) -> None:
    register_condition(Condition(name, objective, retention, about=about, **axes))


_row("no-reh", "distillation", NoRetention(), "no retention: the lower baseline")
_row("reh", "distillation", Rehearsal(), "real items of earlier tasks: the upper baseline")
_row("RePR", "distillation", PseudoRehearsal(), "items dreamt up by a generator")
_row("ewc", "distillation", EWC(), "a weight penalty for each earlier task")
_row("online-ewc", "distillation", OnlineEWC(), "one running weight penalty")
_row("PR", "q-learning", PseudoRehearsal(), "pseudo-rehearsal without a second memory")
_row("DGDMN", "generated distillation", PseudoRehearsal(), "the new task, too, is taught from a generator")
_row("reh-limit", "distillation", Rehearsal(limited=True), "as many raw items as fit in the generator's bytes")
_row(
    "reh-limit-comp", "distillation", CompressedRehearsal(), "as many compressed items as fit in the generator's bytes"
)

# The nine rows of the paper's main table.
MAIN = ("no-reh", "reh", "RePR", "ewc", "online-ewc", "PR", "DGDMN", "reh-limit", "reh-limit-comp")

_EXTENDED = {"variant": "extended"}
_row("reh-extend", "distillation", Rehearsal(), "six games", knowledge="standardised Q-values", **_EXTENDED)
_row("RePR-extend", "distillation", PseudoRehearsal(), "six games", knowledge="standardised Q-values", **_EXTENDED)
_row("reh-extend-policy", "distillation", Rehearsal(), "six games, policy only", knowledge="policy", **_EXTENDED)
_row("RePR-extend-policy", "distillation", PseudoRehearsal(), "six games, policy only", knowledge="policy", **_EXTENDED)

_SHORT = {"variant": "short", "knowledge": "policy"}
_row("ewc-policy-short", "distillation", EWC(), "policy only, a quarter of the long-term training", **_SHORT)
_row(
    "online-ewc-policy-short", "distillation", OnlineEWC(), "policy only, a quarter of the long-term training", **_SHORT
)
_row(
    "RePR-policy-short", "distillation", PseudoRehearsal(), "policy only, a quarter of the long-term training", **_SHORT
)

_row("RePR-rev", "distillation", PseudoRehearsal(), "the tasks in reverse order", reverse=True)
_row("single", "single-task", NoRetention(), "one DQN a task: the reference every score is divided by")
_row("RePR-untrained", "distillation", UntrainedDreams(), "a control: the generator is never trained")
