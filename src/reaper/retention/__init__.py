"""Ways to keep earlier tasks, by name; `register_retention` adds one from any package."""

from __future__ import annotations

from reaper.plugins import Registry
from reaper.retention.base import Recall, Remembered, Retention
from reaper.retention.ewc import EWC, OnlineEWC
from reaper.retention.none import NoRetention
from reaper.retention.pseudo_rehearsal import PseudoRehearsal, UntrainedDreams
from reaper.retention.rehearsal import CompressedRehearsal, Rehearsal

RETENTIONS: Registry[type[Retention]] = Registry("retention method", "reaper.retentions")
RETENTIONS["none"] = NoRetention
RETENTIONS["rehearsal"] = Rehearsal
RETENTIONS["compressed rehearsal"] = CompressedRehearsal
RETENTIONS["pseudo-rehearsal"] = PseudoRehearsal
RETENTIONS["untrained generator"] = UntrainedDreams
RETENTIONS["ewc"] = EWC
RETENTIONS["online-ewc"] = OnlineEWC


def register_retention(name: str, method: type[Retention]) -> None:
    """Makes a retention method known by name; it must be a frozen dataclass whose fields are plain values."""
    RETENTIONS[name] = method


__all__ = [
    "EWC",
    "RETENTIONS",
    "CompressedRehearsal",
    "NoRetention",
    "OnlineEWC",
    "PseudoRehearsal",
    "Recall",
    "Rehearsal",
    "Remembered",
    "Retention",
    "UntrainedDreams",
    "register_retention",
]
