"""What a stage reports while it runs: typed events, and the counter that emits them.

A stage reports to a `Progress`. An engine passes each event to its listeners together with the stage: the terminal, the
heartbeat files and the curves. `Event.to_json` and `Event.from_json` are the only places that know the JSON form.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Event:
    """Base class of all events. `name` identifies the type of an event in JSON."""

    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object; fields without a value are left out."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {"event": self.name} | {key: value for key, value in values.items() if value is not None}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Event:
        """The inverse of `to_json`. Raises ValueError if the record is not an event."""
        event_type = _EVENT_TYPES.get(record.get("event", ""))
        if event_type is None:
            raise ValueError(f"unknown event {record.get('event')!r}")
        try:
            return event_type._from_values({key: value for key, value in record.items() if key != "event"})
        except TypeError as error:
            raise ValueError(f"not a {event_type.name} event: {error}") from None

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Event:
        return cls(**values)


@dataclass(frozen=True)
class PhaseProgress(Event):
    """How far the current phase of a stage is."""

    name = "progress"
    phase: str
    unit: str  # of `done` and `total`
    done: int
    total: int
    score: float | None = None  # mean return: of the latest training episodes, or of an evaluation's so far

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "score": self.score}  # always present, null before the first episode ends


@dataclass(frozen=True)
class StageStarted(Event):
    """A worker has begun the stage; on a cluster, where."""

    name = "started"
    host: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class StageFinished(Event):
    """The stage is in the store. `provenance` is what the store recorded of how it was made."""

    name = "finished"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Wall time. Provenance leaves out what is zero, as the rounded time of a very short stage may be."""
        return float(self.provenance.get("seconds", 0.0))

    def to_json(self) -> dict[str, Any]:
        return {"event": self.name, **self.provenance, "seconds": self.seconds}

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Event:
        return cls(values)


@dataclass(frozen=True)
class StageCached(Event):
    """The stage was already in the store, from an earlier run or another process."""

    name = "cached"


@dataclass(frozen=True)
class StageHeld(Event):
    """Another process that shares the store is running the stage."""

    name = "held"


@dataclass(frozen=True)
class StageFailed(Event):
    """The stage raised an error. The same error ends the run unless other stages can continue without this one."""

    name = "failed"
    error: str
    exit_code: int
    others_continue: bool = False


@dataclass(frozen=True)
class StageStopped(Event):
    """The stage was asked to stop, and has saved its state."""

    name = "stopped"
    error: str
    exit_code: int


@dataclass(frozen=True)
class Remark(Event):
    """Something the user should know, once."""

    name = "remark"
    text: str


@dataclass(frozen=True)
class CurvePoints(Event):
    """One new point of some curves ("training/loss"), after `step` units of work."""

    name = "curve points"
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class CurvesRestarted(Event):
    """Groups of curves ("training") resume at `step`: a process that was killed has lost their later points."""

    name = "curves restarted"
    groups: tuple[str, ...]
    step: int

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Event:
        return cls(**{**values, "groups": tuple(values.get("groups", ()))})


_EVENT_TYPES = {event_type.name: event_type for event_type in Event.__subclasses__()}


class Progress:
    """Counts the work of one stage. Sends an event at most every `min_interval` seconds, and one when a phase ends."""

    def __init__(self, send: Callable[[Event], None] | None = None, min_interval: float = 0.25) -> None:
        self._send, self._min_interval = send, min_interval
        self._last_sent = 0.0
        self.phase, self.unit, self.total, self.done = "", "agent steps", 0, 0
        self.score: float | None = None
        self._rate_origin = (time.monotonic(), 0)

    def begin(
        self, phase: str, total: int, unit: str = "agent steps", done: int = 0, curves: Sequence[str] = ()
    ) -> None:
        """Starts a phase of `total` units, `done` of which a resumed stage has behind it. `curves` are the groups of
        curves that the phase logs."""
        self.phase, self.unit, self.total, self.done, self.score = phase, unit, total, done, None
        self._rate_origin = (time.monotonic(), done)
        self._send_progress()
        if curves and self._send:
            self._send(CurvesRestarted(tuple(curves), done))

    def advance(self, amount: int, score: float | None = None) -> None:
        self.done += amount
        if score is not None:
            self.score = score
        # The score at the end of an evaluation is its result, so that event is never left out.
        if self.done >= self.total or time.monotonic() - self._last_sent >= self._min_interval:
            self._send_progress()

    @contextmanager
    def subphase(self, phase: str, total: int, unit: str) -> Iterator[None]:
        """A phase inside the current one, such as an evaluation during training; the outer phase then resumes."""
        outer, rate_origin = (self.phase, self.unit, self.total, self.done, self.score), self._rate_origin
        self.begin(phase, total, unit)
        try:
            yield
        finally:
            (self.phase, self.unit, self.total, self.done, self.score), self._rate_origin = outer, rate_origin
            self._send_progress()

    def per_second(self, step: int) -> float:
        """Units per second since the last call, or since the phase began."""
        (then, before), now = self._rate_origin, time.monotonic()
        self._rate_origin = (now, step)
        return (step - before) / max(now - then, 1e-9)

    def log_curves(self, group: str, step: int, values: Mapping[str, float | None]) -> None:
        """Logs one point per value that is not None, to the curves "group/name"."""
        if self._send:
            points = {f"{group}/{name}": float(value) for name, value in values.items() if value is not None}
            self._send(CurvePoints(step, points))

    def remark(self, text: str) -> None:
        """Reports something the user should know, once."""
        if self._send:
            self._send(Remark(text))

    def _send_progress(self) -> None:
        self._last_sent = time.monotonic()
        if self._send:
            self._send(
                PhaseProgress(phase=self.phase, unit=self.unit, done=self.done, total=self.total, score=self.score)
            )


class Rate:
    """Speed and remaining time of each phase of a stage, computed from its progress events."""

    def __init__(self) -> None:
        self._origin: dict[str, tuple[float, int]] = {}  # phase -> time of its first event, and `done` then
        self._done: dict[str, int] = {}

    def update(self, event: PhaseProgress) -> tuple[float, float | None]:
        """Units per second and seconds left of the event's phase; None while the speed is not known."""
        phase, done, now = event.phase, event.done, time.monotonic()
        if done < self._done.get(phase, done + 1):  # a new phase, or one that began again or resumed elsewhere
            self._origin[phase] = (now, done)
        self._done[phase] = done
        started, first = self._origin[phase]  # work done before a resume does not count
        rate = (done - first) / max(now - started, 1e-9)
        return rate, (event.total - done) / rate if done > first else None
