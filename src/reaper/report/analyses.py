"""The sections of the paper's experiments: tables for the terminal and the page, and files beside it.

Everything is read from the store: its records say which runs and which further stages belong to an experiment.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from rich.table import Table

from reaper.experiments import EXPERIMENTS, Experiment
from reaper.files import write_whole
from reaper.report.experiment_grids import GRIDS, Material
from reaper.report.experiment_pictures import PICTURES
from reaper.report.findings import listed
from reaper.report.grids import Grid
from reaper.report.tables import _terminal_table, for_html
from reaper.report.theme import DARK, LIGHT, Theme
from reaper.results import read_results
from reaper.store import Store

Draw = Callable[[Theme], bytes | None]


@dataclass(frozen=True)
class Section:
    """One experiment on one sequence of tasks, over its seeds."""

    experiment: Experiment
    material: Material
    grids: list[Grid]
    sentence: str
    cautions: list[str]
    pictures: Mapping[str, Draw] = field(default_factory=dict)  # caption -> how it is drawn

    @property
    def file_name(self) -> str:
        return self.material.name

    @property
    def html(self) -> str:
        title = f"Experiment {self.experiment.name}: {self.experiment.about}"
        where = f"{self.experiment.shows} of the paper, on {listed(self.material.titles)}."
        parts = [f"<h2>{escape(title)}</h2><p>{escape(where)} {escape(self.sentence).replace(' %', '&nbsp;%')}</p>"]
        if self.cautions:
            parts.append(f'<ul class="cautions">{"".join(f"<li>{escape(text)}</li>" for text in self.cautions)}</ul>')
        parts += [for_html(grid) for grid in self.grids]
        for caption, draw in self.pictures.items():
            light, dark = draw(LIGHT), draw(DARK)
            parts += [_figure(light, dark, caption)] if light and dark else []
        return f'<section id="{escape(self.file_name)}">{"".join(parts)}</section>'


def _figure(light: bytes, dark: bytes, caption: str) -> str:
    def source(png: bytes) -> str:
        return f"data:image/png;base64,{base64.b64encode(png).decode()}"

    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{source(dark)}">'
        f'<img src="{source(light)}" alt="{escape(caption)}"></picture>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def read_sections(store: Store, only: str | None = None) -> list[Section]:
    """In the order of the table of experiments; one of another version of this software is passed over."""
    records = store.experiments()
    if not records:
        return []
    results = {result.stages["name"]: result for result in read_results(store)}
    found = []
    for experiment in EXPERIMENTS.values():
        mine = [r for r in records if r["experiment"] == experiment.name and only in (None, experiment.name)]
        for sequence in sorted({(record["sequence"], *record["tasks"]) for record in mine}):
            same = [record for record in mine if (record["sequence"], *record["tasks"]) == sequence]
            material = Material(store, same, [results[n] for r in same for n in r["runs"] if n in results])
            grids, sentence = GRIDS[experiment.analysis](material)
            pictures = PICTURES.get(experiment.analysis, lambda material: {})(material)
            found.append(Section(experiment, material, grids, sentence, _cautions(material), pictures))
    return found


def _cautions(material: Material) -> list[str]:
    found = []
    fraction = material.store.common["fraction"]
    if fraction < 1:
        found.append(
            f"Run at a fraction ({fraction:g}) of the training budget: this shows that every step works; the scores "
            "are not comparable with those of full runs or of the paper."
        )
    if missing := material.missing:
        found.append(f"Not finished: {missing} stages are still to run.")
    if len(material.records) == 1:
        found.append("One seed: differences may be chance.")
    return found


# -- what the rest of the report asks for


def sections(store: Store) -> str:
    """The sections of all experiments as HTML; nothing where there are none."""
    return "\n".join(section.html for section in read_sections(store))


def for_terminal(store: Store, only: str | None = None) -> list[Table]:
    """The tables of all experiments, or of one."""
    tables = []
    for section in read_sections(store, only):
        said = [*([section.sentence] if section.sentence else []), *section.cautions]
        for grid in section.grids:
            title = f"{section.experiment.name} on {section.material.sequence}: {grid.title}"
            last = grid is section.grids[-1]
            tables.append(_terminal_table(grid, title, [*grid.notes, *(said if last else [])]))
    return tables


def write_files(store: Store, folder: Path) -> None:
    """Each table as CSV and each figure as PNG."""
    for section in read_sections(store):
        for number, grid in enumerate(section.grids):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([grid.header, *grid.rows])
            write_whole(folder / f"experiment-{section.file_name}-{number + 1}.csv", text.getvalue().encode())
        for number, draw in enumerate(section.pictures.values()):
            if png := draw(LIGHT):
                write_whole(folder / f"experiment-{section.file_name}-{number + 1}.png", png)
