"""The sections on the paper's experiments.

A store's records list the runs and further stages that belong to each experiment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape

from reaper.errors import DamagedArtefact
from reaper.report.experiment_data import ExperimentData
from reaper.report.experiment_figures import EXPERIMENT_FIGURES
from reaper.report.experiment_tables import EXPERIMENT_TABLES
from reaper.report.findings import listed
from reaper.report.layout import html_list, prose
from reaper.report.rendering import RenderedFigure, render_figure
from reaper.report.table_formats import html_table
from reaper.report.text_table import TextTable
from reaper.results.runs import read_results
from reaper.storage.store import Store
from reaper.study.experiments import EXPERIMENTS, Experiment

SWEEP_HEADLINE = "A search over settings, and the scores that each of them leads to."  # of a folder with only sweeps


@dataclass(frozen=True)
class ExperimentSection:
    """One experiment on one sequence of tasks, over its seeds."""

    experiment: Experiment
    data: ExperimentData
    tables: list[TextTable]
    summary: str

    @property
    def figures(self) -> list[RenderedFigure]:
        return self._figures

    @cached_property
    def _figures(self) -> list[RenderedFigure]:
        """Drawn only when needed: the terminal shows none."""
        with _matching(self.data):
            drawings = EXPERIMENT_FIGURES.get(self.experiment.analysis, lambda data: {})(self.data)
            return [
                figure
                for place, (caption, draw) in enumerate(drawings.items())
                for figure in render_figure(f"experiment-{self.data.name}-{place + 1}", caption, draw)
            ]

    @property
    def caveats(self) -> list[str]:
        found = []
        fraction = self.data.store.header.fraction
        if fraction < 1:
            found.append(
                f"Run at a fraction ({fraction:g}) of the training budget: this shows that every step works, but the "
                "scores are not comparable with those of full runs or of the paper."
            )
        if missing := self.data.missing:
            found.append(f"Not finished: {missing} stages are still to run.")
        if len(self.data.records) == 1:
            found.append("One seed: differences may be due to chance.")
        return found

    @property
    def html(self) -> str:
        title = f"Experiment {self.experiment.name}: {self.experiment.about}"
        where = f"{self.experiment.shows} of the paper, on {listed(self.data.titles)}."
        parts = [
            f"<h2>{escape(title)}</h2><p>{escape(where)} {prose(self.summary)}</p>",
            html_list(self.caveats, "caveats"),
            *map(html_table, self.tables),
            *(figure.html for figure in self.figures),
        ]
        return f'<section id="{escape(self.data.name)}">{"".join(parts)}</section>'


def read_experiment_sections(store: Store) -> list[ExperimentSection]:
    """In the order of the table of experiments; experiments unknown to this version are left out."""
    records = store.experiments()
    if not records:
        return []
    results = {result.record.name: result for result in read_results(store)}
    sections = []
    for experiment in EXPERIMENTS.values():
        own = [record for record in records if record.experiment == experiment.name]
        for sequence in sorted({(record.sequence, *record.tasks) for record in own}):
            same = [record for record in own if (record.sequence, *record.tasks) == sequence]
            runs = [results[name] for record in same for name in record.runs if name in results]
            sections.append(_read_section(experiment, ExperimentData(store, same, runs)))
    return sections


def _read_section(experiment: Experiment, data: ExperimentData) -> ExperimentSection:
    with _matching(data):
        tables, summary = EXPERIMENT_TABLES[experiment.analysis](data)
    named = [replace(table, name=f"experiment-{data.name}-{place + 1}") for place, table in enumerate(tables)]
    return ExperimentSection(experiment, data, named, summary)


@contextmanager
def _matching(data: ExperimentData) -> Iterator[None]:
    """Raises `DamagedArtefact` where records and stages contradict each other, although each file is intact."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        path = data.store.folder / "experiments" / f"{data.records[0].name}.json"
        raise DamagedArtefact(path, f"and its stages do not fit together ({error!r})") from None
