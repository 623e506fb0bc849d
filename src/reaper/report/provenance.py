"""How a report's runs were made: settings, budget, seeds, versions, machines and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reaper.config.overrides import differences
from reaper.config.presets import PAPER
from reaper.config.sparse_json import from_json
from reaper.report.condition_order import rank_of
from reaper.report.text_table import TextTable
from reaper.results.runs import RunResult, stages_of
from reaper.storage.parsing import SparseSettings
from reaper.storage.store import Artefact, Store

# The facts about a machine that may be published: nothing that names it, its user or its folders.
_MACHINE = ("device", "processor", "threads", "torch", "version")
_LABELS = {"version": "reaper at run time"}

# Why results may differ from the paper's apart from settings; docs/deviations.md explains each.
DEVIATIONS = (
    ("Budgets count agent steps", "one agent step is four emulator frames"),
    ("Parallel environments", "budgets and ratios stay per agent step"),
    (
        "Optimiser",
        "TensorFlow's RMSProp, gradients clipped at a norm of 10; weights from a truncated normal distribution",
    ),
    ("GAN", "SAME padding; 200,000 alternating steps are 100,000 of each network"),
    ("Replay of the first task", "collected again by the finished teacher, so that no replay is handed on"),
    ("Best weights", "windows do not overlap; short-term by score, once enough episodes finished; long-term by loss"),
    (
        "Reset boundaries",
        "all environments are reset every `training.reset-interval` agent steps of each: longer than an Atari game",
    ),
    ("`fraction`", "scales durations, and no capacity, ratio or learning rate"),
)


@dataclass(frozen=True)
class Provenance:
    """What a reader needs to judge the numbers or to reproduce them."""

    version: str
    preset: str
    fraction: float
    seeds: tuple[int, ...]
    stages_done: int
    stages: int
    seconds: float  # of all stages together
    machines: dict[str, list[str]]  # device, processor, torch ... -> the values that occur
    time: TextTable
    user_values: TextTable  # settings that the user gave
    settings: TextTable
    condition_settings: TextTable | None  # of conditions that differ from the rest
    every_stage: TextTable

    @property
    def finished(self) -> bool:
        return self.stages_done == self.stages

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Label and text, for a list."""
        done = "all" if self.finished else f"{self.stages_done} of"
        machines = {name: values for name, values in self.machines.items() if values != [self.version]}
        return [
            ("reaper", self.version),
            ("preset", self.preset),
            ("fraction of the budget", f"{self.fraction:g}"),
            ("seeds", ", ".join(map(str, self.seeds))),
            ("stages", f"{done} {self.stages} finished"),
            *((_LABELS.get(name, name), ", ".join(values)) for name, values in machines.items()),
            ("wall time", f"{duration(self.seconds)} over all stages" if self.seconds else "none yet"),
        ]

    @property
    def tables(self) -> list[TextTable]:
        """Those that are not empty, without the long list of stages."""
        tables = (self.time, self.user_values, self.settings, self.condition_settings, deviation_table())
        return [table for table in tables if table and table.rows]


def read_provenance(store: Store, results: list[RunResult]) -> Provenance:
    header = store.header
    digests = {digest: None for result in results for digest in _digests(result)}
    finished = [store.stage(digest) for digest in digests if store.has(digest)]
    machines: dict[str, set[str]] = {}
    for stage in finished:
        provenance = stage.provenance()
        for name in _MACHINE:
            if value := getattr(provenance, name):
                machines.setdefault(name, set()).add(str(value))
    return Provenance(
        version=header.version,
        preset=header.preset,
        fraction=header.fraction,
        seeds=tuple(sorted({result.seed for result in results})),
        stages_done=len(finished),
        stages=len(digests),
        seconds=sum(map(_seconds, finished)),
        machines={name: sorted(values) for name, values in sorted(machines.items())},
        time=_time_table(finished, _training_steps(results)),
        user_values=_user_values_table(header.user_values or {}),
        settings=_settings_table(header.settings),
        condition_settings=_condition_settings_table(header.settings, results),
        every_stage=_stage_table(finished),
    )


def _digests(result: RunResult) -> list[str]:
    record, found = result.record, stages_of(result.record)
    return [*found, record.random] if record.random else found


# -- time


def duration(seconds: float) -> str:
    """In the unit that suits it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _seconds(stage: Artefact) -> float:
    return stage.provenance().seconds


def _training_steps(results: list[RunResult]) -> dict[str, int]:
    """Digest -> agent steps of training; a first long-term agent that is a copy of its teacher trains for none."""
    steps = {}
    for result in results:
        record = result.record
        distilled = [record.distilled] if record.distilled else []
        steps |= dict.fromkeys(record.teachers, result.settings.short_term.agent_steps)
        steps |= dict.fromkeys([*distilled, *record.memories[1:]], result.settings.long_term.agent_steps)
    return steps


def _time_table(stages: list[Artefact], training_steps: dict[str, int]) -> TextTable:
    by_kind: dict[str, list[Artefact]] = {}
    for stage in stages:
        by_kind.setdefault(stage.manifest.kind, []).append(stage)
    total = {kind: sum(map(_seconds, alike)) for kind, alike in by_kind.items()}
    rows = []
    for kind, alike in sorted(by_kind.items(), key=lambda entry: -total[entry[0]]):
        training = [(steps, _seconds(stage)) for stage in alike if (steps := _steps_of(stage, training_steps))]
        time = sum(seconds for _, seconds in training)
        rate = f"{sum(steps for steps, _ in training) / time:,.0f}" if time else ""
        rows.append((kind, str(len(alike)), duration(total[kind]), duration(total[kind] / len(alike)), rate))
    if rows:
        rows.append(("total", str(len(stages)), duration(sum(total.values())), "", ""))
    notes = ["Wall time of each stage; stages that ran concurrently each count in full."]
    if any(row[-1] for row in rows):
        notes.append("The rate includes the time for evaluations and for training generators.")
    header = ("kind of stage", "stages", "time", "time per stage", "agent steps per second")
    return TextTable("Wall time", header, rows, notes)


def _steps_of(stage: Artefact, training_steps: dict[str, int]) -> int:
    return training_steps.get(stage.manifest.digest, 0)


def _stage_table(stages: list[Artefact]) -> TextTable:
    """Every stage: only for the files, since it would be the longest table of the page."""
    rows = [(stage.title, stage.manifest.kind, f"{_seconds(stage):.1f}") for stage in stages]
    return TextTable("Wall time of every stage", ("stage", "kind", "seconds"), rows, name="stages")


# -- settings


def deviation_table() -> TextTable:
    notes = ["docs/deviations.md in the source lists all of them."]
    return TextTable("Deviations from the paper", ("deviation", "summary"), list(DEVIATIONS), notes, name="deviations")


def _user_values_table(values: Mapping[str, Any]) -> TextTable:
    rows = [(_flag(name), _plain(value)) for name, value in values.items()]
    notes = ["They hold in every condition, also where a condition has a value of its own."]
    return TextTable("Settings given by the user", ("setting", "value"), rows, notes, name="given-settings")


def _settings_table(settings: SparseSettings) -> TextTable:
    changed = differences(from_json(settings), PAPER)
    rows = [(_flag(name), _plain(here), _plain(paper)) for name, (here, paper) in changed.items()]
    return TextTable("Settings that differ from the paper's", ("setting", "here", "paper"), rows, name="settings")


def _condition_settings_table(settings: SparseSettings, results: list[RunResult]) -> TextTable | None:
    """Settings of conditions that differ from the rest (a variant of the preset, or overrides)."""
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
