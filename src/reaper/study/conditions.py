"""The table of conditions: each is a point on four axes, and nothing anywhere asks for a condition's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reaper.learning.knowledge import Knowledge, Policy, QValues, StandardisedQValues
from reaper.learning.objectives import Alone, Distil, DistilDreams, Reinforce, Teaching
from reaper.plugins import Registry
from reaper.retention import (
    EWC,
    RETENTIONS,
    CompressedRehearsal,
    Nothing,
    OnlineEWC,
    PseudoRehearsal,
    Rehearsal,
    Retention,
    UntrainedDreams,
)

TEACHINGS: dict[str, type[Teaching]] = {
    "distil": Distil,
    "distil dreams": DistilDreams,
    "reinforce": Reinforce,
    "alone": Alone,
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
    teaching: str
    retention: Retention
    knowledge: str = "Q-values"
    variant: str = "main"  # of the scale: main, extended, short
    reverse: bool = False  # the tasks in the opposite order
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of this condition alone
    about: str = ""
    base: str = ""  # of which condition this is one point of a sweep; such a point is in no table of conditions

    @property
    def teaches(self) -> Teaching:
        return TEACHINGS[self.teaching]()

    def describe(self) -> dict[str, Any]:
        """The axes as plain values, as `reaper conditions --json` prints them."""
        return {
            "name": self.name,
            "teaching": self.teaching,
            "retention": RETENTIONS.describe(self.retention),
            "knowledge": self.knowledge,
            "scale": self.variant,
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


def _row(name: str, teaching: str, retention: Retention, about: str, **axes: Any) -> None:
    register_condition(Condition(name, teaching, retention, about=about, **axes))


_row("no-reh", "distil", Nothing(), "no retention: the lower baseline")
_row("reh", "distil", Rehearsal(), "real items of earlier tasks: the upper baseline")
_row("RePR", "distil", PseudoRehearsal(), "items dreamt up by a generator")
_row("ewc", "distil", EWC(), "a weight penalty for each earlier task")
_row("online-ewc", "distil", OnlineEWC(), "one running weight penalty")
_row("PR", "reinforce", PseudoRehearsal(), "pseudo-rehearsal without a second memory")
_row("DGDMN", "distil dreams", PseudoRehearsal(), "the new task, too, is taught from a generator")
_row("reh-limit", "distil", Rehearsal(limited=True), "as many raw items as fit in the generator's bytes")
_row("reh-limit-comp", "distil", CompressedRehearsal(), "as many compressed items as fit in the generator's bytes")

# The nine rows of the paper's main table.
MAIN = ("no-reh", "reh", "RePR", "ewc", "online-ewc", "PR", "DGDMN", "reh-limit", "reh-limit-comp")

_EXTENDED = {"variant": "extended"}
_row("reh-extend", "distil", Rehearsal(), "six games", knowledge="standardised Q-values", **_EXTENDED)
_row("RePR-extend", "distil", PseudoRehearsal(), "six games", knowledge="standardised Q-values", **_EXTENDED)
_row("reh-extend-policy", "distil", Rehearsal(), "six games, policy only", knowledge="policy", **_EXTENDED)
_row("RePR-extend-policy", "distil", PseudoRehearsal(), "six games, policy only", knowledge="policy", **_EXTENDED)

_SHORT = {"variant": "short", "knowledge": "policy"}
_row("ewc-policy-short", "distil", EWC(), "policy only, a quarter of the long-term training", **_SHORT)
_row("online-ewc-policy-short", "distil", OnlineEWC(), "policy only, a quarter of the long-term training", **_SHORT)
_row("RePR-policy-short", "distil", PseudoRehearsal(), "policy only, a quarter of the long-term training", **_SHORT)

_row("RePR-rev", "distil", PseudoRehearsal(), "the tasks in reverse order", reverse=True)
_row("single", "alone", Nothing(), "one DQN a task: the reference every score is divided by")
_row("RePR-untrained", "distil", UntrainedDreams(), "a control: the generator is never trained")
