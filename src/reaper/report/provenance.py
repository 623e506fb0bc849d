"""How a report's runs were made: settings, budget, seeds, versions, machines and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reaper.config.overrides import differences
from reaper.config.presets import PAPER
from reaper.config.sparse_json import from_json
from reaper.report.score_tables import TextTable
from reaper.report.scores import rank_of
from reaper.results.runs import RunResult, stages_of
from reaper.storage.manifests import Provenance as StageProvenance
from reaper.storage.parsing import SparseSettings
from reaper.storage.store import Artefact, Store

# What a record says of the machine that may be shown to anyone: no name of it, its user or its folders.
_MACHINE = ("device", "processor", "threads", "torch", "version")
_LABELS = {"version": "reaper, while it ran"}

# Where results may differ from the paper's for another reason than settings; docs/deviations.md tells each in full.
DEVIATIONS = (
    ("Budgets count agent steps", "one agent step is four emulator frames"),
    ("Parallel environments", "budgets and ratios stay per agent step"),
    ("RMSProp", "TensorFlow's, with epsilon inside the square root; weights from a truncated normal distribution"),
    ("GAN", "SAME padding; 200,000 alternating steps are 100,000 of each network"),
    ("Replay of the first task", "collected again by the finished teacher, so that no replay is handed on"),
    ("Best weights", "windows do not overlap; short-term by score, long-term by loss"),
    ("Reset boundaries", "all environments are reset at every evaluation"),
    ("`fraction`", "scales durations, and no capacity, ratio or learning rate"),
)


@dataclass(frozen=True)
class Provenance:
    """What a reader needs in order to judge the numbers, or to make them again."""

    version: str
    preset: str
    fraction: float
    seeds: tuple[int, ...]
    stages_done: int
    stages: int
    seconds: float  # of all stages together
    machines: dict[str, list[str]]  # device, processor, torch ... -> the values that occur
    time: TextTable
    settings: TextTable
    own_settings: TextTable | None  # of conditions that differ from the rest
    every_stage: TextTable

    @property
    def finished(self) -> bool:
        return self.stages_done == self.stages

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Label and text, for a list."""
        done = "all" if self.finished else f"{self.stages_done} of"
        return [
            ("reaper", self.version),
            ("preset", self.preset),
            ("fraction of the budget", f"{self.fraction:g}"),
            ("seeds", ", ".join(map(str, self.seeds))),
            ("stages", f"{done} {self.stages} finished"),
            *((_LABELS.get(name, name), ", ".join(values)) for name, values in self.machines.items()),
            ("time", f"{duration(self.seconds)} of work" if self.seconds else "none yet"),
        ]

    @property
    def grids(self) -> list[TextTable]:
        """Those that have anything in them."""
        grids = (self.time, self.settings, self.own_settings, deviation_table())
        return [grid for grid in grids if grid and grid.rows]


def read_provenance(store: Store, results: list[RunResult]) -> Provenance:
    header = store.header
    digests = {digest: None for result in results for digest in _digests(result)}
    done = [store.stage(digest) for digest in digests if store.has(digest)]
    made = [artefact.provenance() for artefact in done]
    machines: dict[str, set[str]] = {}
    seconds: dict[str, list[tuple[float, int]]] = {}  # kind -> how long each stage took, for how many frames
    for artefact, record in zip(done, made, strict=True):
        taken = (record.seconds, _trained_frames(artefact))
        seconds.setdefault(artefact.manifest.kind, []).append(taken)
        for name in _MACHINE:
            if value := getattr(record, name):
                machines.setdefault(name, set()).add(str(value))
    return Provenance(
        header.version,
        header.preset,
        header.fraction,
        tuple(sorted({result.seed for result in results})),
        len(done),
        len(digests),
        sum(taken for values in seconds.values() for taken, _ in values),
        {name: sorted(values) for name, values in sorted(machines.items())},
        _time_grid(seconds),
        _settings_grid(header.settings),
        _own_settings_grid(header.settings, results),
        _stage_grid(done, made),
    )


def _digests(result: RunResult) -> list[str]:
    record, found = result.record, stages_of(result.record)
    return [*found, record.random] if record.random else found


def duration(seconds: float) -> str:
    """As a person would say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _trained_frames(artefact: Artefact) -> int:
    """Agent steps that a stage trained for; 0 where it trained no agent."""
    spec = artefact.spec
    part = {"short-term": "short_term", "consolidate": "long_term" if "memory" in spec.get("parents", ()) else None}
    return spec.get("settings", {}).get(part.get(artefact.manifest.kind), {}).get("agent_steps", 0)


def _time_grid(seconds: dict[str, list[tuple[float, int]]]) -> TextTable:
    rows = []
    total = {kind: sum(taken for taken, _ in values) for kind, values in seconds.items()}
    for kind in sorted(seconds, key=lambda kind: -total[kind]):
        training = [(taken, frames) for taken, frames in seconds[kind] if frames]
        time = sum(taken for taken, _ in training)
        rate = f"{sum(frames for _, frames in training) / time:,.0f}" if time else ""
        count = len(seconds[kind])
        rows.append((kind, str(count), duration(total[kind]), duration(total[kind] / count), rate))
    if rows:
        count = sum(map(len, seconds.values()))
        rows.append(("together", str(count), duration(sum(total.values())), "", ""))
    notes = ["Each stage's own time; stages that ran side by side each count in full."]
    if any(row[-1] for row in rows):
        rest = "tests and the training of generators included"
        notes.append(f"Frames a second: agent steps of training over all of the time of their stages, {rest}.")
    return TextTable("Wall time", ("kind of stage", "stages", "time", "time a stage", "frames a second"), rows, notes)


def _stage_grid(done: list[Artefact], made: list[StageProvenance]) -> TextTable:
    """Every stage by itself: for the files, since it would be the longest table of the page."""
    rows = [
        (artefact.title, artefact.manifest.kind, f"{record.seconds:.1f}")
        for artefact, record in zip(done, made, strict=True)
    ]
    return TextTable("Wall time of every stage", ("stage", "kind", "seconds"), rows, name="stages")


def deviation_table() -> TextTable:
    notes = ["docs/deviations.md, in the source, tells all of them, and what was tried."]
    return TextTable(
        "Where the code departs from the paper", ("departure", "in short"), list(DEVIATIONS), notes, "deviations"
    )


def _settings_grid(settings: SparseSettings) -> TextTable:
    changed = differences(from_json(settings), PAPER)
    rows = [(_flag(name), _plain(here), _plain(paper)) for name, (here, paper) in changed.items()]
    return TextTable("Settings that differ from the paper's", ("setting", "here", "paper"), rows, name="settings")


def _own_settings_grid(settings: SparseSettings, results: list[RunResult]) -> TextTable | None:
    """Conditions may have settings of their own (a variant of the preset, or overrides)."""
    base = from_json(settings)
    rows = {
        (*rank_of(result.name), _flag(name)): (result.name, _flag(name), _plain(here), _plain(there))
        for result in results
        for name, (here, there) in differences(result.settings, base).items()
    }
    header = ("condition", "setting", "this condition", "the others")
    return TextTable("Settings of single conditions", header, [rows[key] for key in sorted(rows)]) if rows else None


def _flag(name: str) -> str:
    """As on the command line."""
    return name.replace("_", "-")


def _plain(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
