"""One self-contained page about a folder of runs, and the folder of files that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from reaper.report import experiment_sections, layout
from reaper.report.cache import ReportCache
from reaper.report.findings import headline, listed
from reaper.report.provenance import Provenance, read_provenance
from reaper.report.rendering import RenderedFigure
from reaper.report.score_tables import TextTable
from reaper.report.scores import SequenceScores, gather_scores, rank_of
from reaper.report.sequence_sections import Section, read_sequence_section, runs_to_record
from reaper.report.table_formats import condition_names, csv_table, for_markdown, html_table, latex_table
from reaper.results import tidy
from reaper.results.runs import RunResult, read_results
from reaper.storage.files import atomic_write
from reaper.storage.store import Store

MOST_FILM_BYTES = (
    7_500_000  # of all films together: as text in the page they take a third more, and it stays below 15 MB
)


class Part(Protocol):
    """A part of the page: what is shown, and what is written beside it."""

    @property
    def html(self) -> str: ...
    @property
    def grids(self) -> Iterable[TextTable]: ...
    @property
    def figures(self) -> Iterable[RenderedFigure]: ...


@dataclass(frozen=True)
class Report:
    """A folder of runs, read once, for the page and the files beside it."""

    results: list[RunResult]
    sections: list[Section]  # a sequence of tasks each
    further: list[Part]  # what else there is to show, such as an analysis, in this order
    making: Provenance

    @property
    def html(self) -> str:
        sequences = [section.scores for section in self.sections]
        return layout.page(
            layout.prose(headline(sequences) if sequences or not self.further else experiment_sections.HEADLINE),
            escape(_subtitle(self.making, sequences)),
            _pairs((result.name, result.condition["about"]) for result in _one_of_each(self.results)),
            "\n".join(part.html for part in (*self.sections, *self.further)),
            _making_html(self.making),
        )


def read_report(store: Store, videos: bool = True) -> Report:
    """What had to be played or trained for the report is kept in OUT/report/kept."""
    results, kept = read_results(store), ReportCache(store.folder / "report" / "kept")
    making, sequences = read_provenance(store, results), gather_scores(results)
    films = sum(len(runs_to_record(scores)) for scores in sequences)
    film_bytes = MOST_FILM_BYTES // films if videos and films else 0
    sections = [
        read_sequence_section(store, scores, condition_names(sequences), kept, film_bytes) for scores in sequences
    ]
    kept.settle()
    return Report(results, sections, [*experiment_sections.read_experiment_sections(store)], making)


def _subtitle(making: Provenance, sequences: Sequence[SequenceScores]) -> str:
    titles = list(dict.fromkeys(title for scores in sequences for title in scores.titles))
    orders = f", in {len(sequences)} orders" if len(sequences) > 1 else ""
    seeds = f"{len(making.seeds)} seed{'s' if len(making.seeds) != 1 else ''}"
    budget = "" if making.fraction == 1 else f", at {making.fraction:g} of the full training time"
    return f"{listed(titles) or 'No tasks'}{orders}, {seeds}{budget}"


def _one_of_each(results: list[RunResult]) -> list[RunResult]:
    """One run of each condition, in the order of the table of conditions."""
    plain = {result.name: result for result in results if not result.condition.get("base")}
    return sorted(plain.values(), key=lambda result: rank_of(result.name))


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f"<dl>{items}</dl>" if items else ""


def _making_html(making: Provenance) -> str:
    """The facts at once; long tables for those who ask."""
    tables = "\n".join(
        f"<details><summary>{escape(g.title)}</summary>{html_table(g, 0)}</details>" for g in making.grids
    )
    return _pairs(making.facts) + tables


def write_page(store: Store, path: str | Path, videos: bool = True) -> Path:
    """The whole report as one file that needs nothing else: no network, no scripts, no other files."""
    return _written(Path(path), read_report(store, videos).html)


def write_report(store: Store, commands: Sequence[str] = (), videos: bool = True) -> Path:
    """Writes OUT/report: index.html, scores.md, results.csv, figures/, tables/ and videos/; returns the page's path."""
    report, folder = read_report(store, videos), store.folder / "report"
    parts: list[tuple[str, Part]] = [
        (f"{number + 1}-" if len(report.sections) > 1 else "", section)
        for number, section in enumerate(report.sections)
    ]
    for prefix, part in (*parts, *(("", part) for part in report.further)):
        for figure in part.figures:
            for name, content in figure.files.items():
                _written(folder / "figures" / f"{prefix}{name}", content)
        _write_tables(folder / "tables", part.grids, prefix)
    _write_tables(folder / "tables", [*report.making.grids, report.making.every_stage])
    for (prefix, _), section in zip(parts, report.sections, strict=True):
        for film in section.films:
            _written(folder / "videos" / f"{prefix}{film.file_name}", film.content)
    _written(folder / "scores.md", for_markdown(store, commands))
    _written(folder / "results.csv", tidy.as_csv(report.results, report.making.fraction))
    return _written(folder / "index.html", report.html)


def _write_tables(folder: Path, grids: Iterable[TextTable], prefix: str = "") -> None:
    for grid in grids:
        _written(folder / f"{prefix}{grid.stem}.tex", latex_table(grid))
        _written(folder / f"{prefix}{grid.stem}.csv", csv_table(grid))


def _written(path: Path, content: str | bytes) -> Path:
    atomic_write(path, content.encode() if isinstance(content, str) else content)
    return path
