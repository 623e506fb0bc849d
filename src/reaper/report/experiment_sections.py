"""The sections of the paper's experiments: tables for the terminal and the page, and files beside it.

Everything is read from the store: its records say which runs and which further stages belong to an experiment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape

from rich.table import Table
from rich.text import Text

from reaper.errors import DamagedArtefact
from reaper.report.experiment_data import ExperimentData
from reaper.report.experiment_figures import EXPERIMENT_FIGURES
from reaper.report.experiment_tables import EXPERIMENT_TABLES
from reaper.report.findings import listed
from reaper.report.layout import prose
from reaper.report.rendering import RenderedFigure, render_figure
from reaper.report.score_tables import TextTable
from reaper.report.table_formats import html_table, markdown_table, terminal_table
from reaper.results.runs import read_results
from reaper.storage.store import Store
from reaper.study.experiments import EXPERIMENTS, Experiment

HEADLINE = "A search over settings: what each of them leads to."  # where nothing but points of sweeps was run


@dataclass(frozen=True)
class Section:
    """One experiment on one sequence of tasks, over its seeds."""

    experiment: Experiment
    material: ExperimentData
    grids: list[TextTable]
    sentence: str
    caveats: list[str]
    figures: list[RenderedFigure]

    @property
    def html(self) -> str:
        title = f"Experiment {self.experiment.name}: {self.experiment.about}"
        where = f"{self.experiment.shows} of the paper, on {listed(self.material.titles)}."
        parts = [f"<h2>{escape(title)}</h2><p>{escape(where)} {prose(self.sentence)}</p>"]
        if self.caveats:
            parts.append(f'<ul class="cautions">{"".join(f"<li>{escape(text)}</li>" for text in self.caveats)}</ul>')
        parts += [*map(html_table, self.grids), *(figure.html for figure in self.figures)]
        return f'<section id="{escape(self.material.name)}">{"".join(parts)}</section>'


def read_experiment_sections(store: Store) -> list[Section]:
    """In the order of the table of experiments; one of another version of this software is passed over."""
    records = store.experiments()
    if not records:
        return []
    results = {result.record.name: result for result in read_results(store)}
    found = []
    for experiment in EXPERIMENTS.values():
        mine = [record for record in records if record.experiment == experiment.name]
        for sequence in sorted({(record.sequence, *record.tasks) for record in mine}):
            same = [record for record in mine if (record.sequence, *record.tasks) == sequence]
            material = ExperimentData(store, same, [results[n] for r in same for n in r.runs if n in results])
            found.append(_read_section(experiment, material))
    return found


def _read_section(experiment: Experiment, material: ExperimentData) -> Section:
    """Records and stages that do not fit together are whole files of different experiments, or forged ones."""
    try:
        grids, sentence = EXPERIMENT_TABLES[experiment.analysis](material)
        grids = [replace(grid, name=f"experiment-{material.name}-{n + 1}") for n, grid in enumerate(grids)]
        pictures = EXPERIMENT_FIGURES.get(experiment.analysis, lambda material: {})(material)
        figures = [
            figure
            for n, (caption, draw) in enumerate(pictures.items())
            for figure in render_figure(f"experiment-{material.name}-{n + 1}", caption, draw)
        ]
        return Section(experiment, material, grids, sentence, _caveats(material), figures)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        path = material.store.folder / "experiments" / f"{material.records[0].name}.json"
        raise DamagedArtefact(path, f"and its stages do not fit together ({error!r})") from None


def _caveats(material: ExperimentData) -> list[str]:
    found = []
    fraction = material.store.header.fraction
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


def for_terminal(found: Iterable[Section]) -> list[Table | Text]:
    """The tables of experiments and what is to be said of them, to be printed one after another."""
    printed: list[Table | Text] = []
    for section in found:
        for grid in section.grids:
            printed.append(
                terminal_table(grid, f"{section.experiment.name} on {section.material.sequence}: {grid.title}", [])
            )
            printed += [Text(note, style="italic") for note in grid.notes]  # a caption would be cut where a table is
        printed.append(Text("\n".join(["", *([section.sentence] if section.sentence else []), *section.caveats])))
    return printed


def for_markdown(found: Iterable[Section]) -> str:
    """A chapter for each experiment."""
    parts = []
    for section in found:
        parts.append(f"## Experiment {section.experiment.name}: {section.experiment.about}")
        parts.append(f"{section.experiment.shows} of the paper. {section.sentence}".strip())
        parts += ["\n".join(f"- {text}" for text in section.caveats)] if section.caveats else []
        for grid in section.grids:
            parts += [f"### {grid.title}", markdown_table(grid), *grid.notes]
    return "".join(f"\n{part}\n" for part in parts)
