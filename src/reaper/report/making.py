"""How a report's runs were made: settings, budget, seeds, versions, machines and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reaper.report.grids import Grid
from reaper.report.scores import rank_of
from reaper.results import RunResult, stages_of
from reaper.scales import PAPER, differences, from_dict
from reaper.store import Store

_NOT_A_MACHINE = ("seconds", "finished")


@dataclass(frozen=True)
class Making:
    """What a reader needs in order to judge the numbers, or to make them again."""

    version: str
    scale: str
    fraction: float
    seeds: tuple[int, ...]
    stages_done: int
    stages: int
    machines: dict[str, list[str]]  # device, processor, torch ... -> the values that occur
    time: Grid
    settings: Grid
    own_settings: Grid | None  # of conditions that differ from the rest

    @property
    def finished(self) -> bool:
        return self.stages_done == self.stages

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Label and text, for a list."""
        done = "all" if self.finished else f"{self.stages_done} of"
        return [
            ("reaper", self.version),
            ("scale", self.scale),
            ("fraction of the budget", f"{self.fraction:g}"),
            ("seeds", ", ".join(map(str, self.seeds))),
            ("stages", f"{done} {self.stages} finished"),
            *((name, ", ".join(values)) for name, values in self.machines.items()),
        ]


def read_making(store: Store, results: list[RunResult]) -> Making:
    common = store.common
    digests = {digest: None for result in results for digest in _digests(result)}
    done = [store.stage(digest) for digest in digests if store.has(digest)]
    machines: dict[str, set[str]] = {}
    seconds: dict[str, list[float]] = {}
    for artefact in done:
        made = artefact.made()
        seconds.setdefault(artefact.manifest["kind"], []).append(made.get("seconds", 0.0))
        for name in made.keys() - set(_NOT_A_MACHINE):
            machines.setdefault(name, set()).add(str(made[name]))
    return Making(
        common.get("version", "unknown"),
        common["scale"],
        common["fraction"],
        tuple(sorted({result.seed for result in results})),
        len(done),
        len(digests),
        {name: sorted(values) for name, values in sorted(machines.items())},
        _time_grid(seconds),
        _settings_grid(common["settings"]),
        _own_settings_grid(common["settings"], results),
    )


def _digests(result: RunResult) -> list[str]:
    record, found = result.stages, stages_of(result.stages)
    return [*found, record["random"]] if record["random"] else found


def duration(seconds: float) -> str:
    """As a person would say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _time_grid(seconds: dict[str, list[float]]) -> Grid:
    rows = [
        (kind, str(len(values)), duration(sum(values)), duration(sum(values) / len(values)))
        for kind, values in sorted(seconds.items(), key=lambda item: -sum(item[1]))
    ]
    everything = [value for values in seconds.values() for value in values]
    if everything:
        rows.append(("together", str(len(everything)), duration(sum(everything)), ""))
    notes = ["Each stage's own time; stages that ran side by side each count in full."]
    return Grid("Wall time", ("kind of stage", "stages", "time", "time a stage"), rows, notes)


def _settings_grid(settings: dict[str, Any]) -> Grid:
    changed = differences(from_dict(settings), PAPER)
    rows = [(_flag(name), _plain(here), _plain(paper)) for name, (here, paper) in changed.items()]
    return Grid("Settings that differ from the paper's", ("setting", "here", "paper"), rows)


def _own_settings_grid(settings: dict[str, Any], results: list[RunResult]) -> Grid | None:
    """Conditions may have settings of their own (a variant of the scale, or overrides)."""
    base = from_dict(settings)
    rows = {
        (*rank_of(result.name), _flag(name)): (result.name, _flag(name), _plain(here), _plain(there))
        for result in results
        for name, (here, there) in differences(result.settings, base).items()
    }
    header = ("condition", "setting", "this condition", "the others")
    return Grid("Settings of single conditions", header, [rows[key] for key in sorted(rows)]) if rows else None


def _flag(name: str) -> str:
    """As on the command line."""
    return name.replace("_", "-")


def _plain(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
