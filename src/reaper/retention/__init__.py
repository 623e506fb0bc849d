"""Retention methods by name; `register_retention` adds one from any package."""

from __future__ import annotations

from reaper.config.methods import MethodRegistry
from reaper.retention.base import Recall, Remembered, Retention
from reaper.retention.ewc import EWC, OnlineEWC
from reaper.retention.mixed_rehearsal import MixedRehearsal
from reaper.retention.none import NoRetention
from reaper.retention.pseudo_rehearsal import PseudoRehearsal, UntrainedGenerator
from reaper.retention.rehearsal import CompressedRehearsal, LimitedRehearsal, Rehearsal

RETENTIONS: MethodRegistry[Retention] = MethodRegistry("retention method", "reaper.retentions")
RETENTIONS["none"] = NoRetention
RETENTIONS["rehearsal"] = Rehearsal
RETENTIONS["limited-rehearsal"] = LimitedRehearsal
RETENTIONS["compressed-rehearsal"] = CompressedRehearsal
RETENTIONS["pseudo-rehearsal"] = PseudoRehearsal
RETENTIONS["mixed-rehearsal"] = MixedRehearsal
RETENTIONS["untrained-generator"] = UntrainedGenerator
RETENTIONS["ewc"] = EWC
RETENTIONS["online-ewc"] = OnlineEWC


def register_retention(name: str, method: type[Retention]) -> None:
    """Makes a retention method known by name. It must be a frozen dataclass; its fields become settings."""
    RETENTIONS[name] = method


__all__ = [
    "EWC",
    "RETENTIONS",
    "CompressedRehearsal",
    "LimitedRehearsal",
    "MixedRehearsal",
    "NoRetention",
    "OnlineEWC",
    "PseudoRehearsal",
    "Recall",
    "Rehearsal",
    "Remembered",
    "Retention",
    "UntrainedGenerator",
    "register_retention",
]
