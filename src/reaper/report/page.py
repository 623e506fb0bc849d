"""The report: one self-contained HTML page on a folder of runs, and tables, figures and videos as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from reaper.report import layout
from reaper.report.cache import ReportCache
from reaper.report.condition_order import rank_of
from reaper.report.experiment_sections import SWEEP_HEADLINE, read_experiment_sections
from reaper.report.findings import headline, listed
from reaper.report.provenance import Provenance, read_provenance
from reaper.report.rendering import RenderedFigure
from reaper.report.scores import SequenceScores, condition_names, gather_scores
from reaper.report.sequence_sections import SequenceSection, read_sequence_section, runs_to_record
from reaper.report.table_formats import csv_table, html_table, latex_table
from reaper.report.text_report import markdown_report
from reaper.report.text_table import TextTable
from reaper.results import tidy
from reaper.results.runs import RunResult, read_results
from reaper.storage.files import atomic_write
from reaper.storage.store import Store

# All videos together. Base64 makes them a third larger, and the page should stay below 15 MB.
MAX_VIDEO_BYTES = 7_500_000


class Section(Protocol):
    """A section of the page, and the tables and figures that are written alongside it."""

    @property
    def html(self) -> str: ...
    @property
    def tables(self) -> Iterable[TextTable]: ...
    @property
    def figures(self) -> Iterable[RenderedFigure]: ...


@dataclass(frozen=True)
class Report:
    """A folder of runs, read once for the page and the files alongside it."""

    results: list[RunResult]
    sequences: list[SequenceSection]
    experiments: Sequence[Section]
    provenance: Provenance

    @property
    def html(self) -> str:
        scores = [section.scores for section in self.sequences]
        return layout.page(
            layout.prose(headline(scores) if scores or not self.experiments else SWEEP_HEADLINE),
            escape(_subtitle(self.provenance, scores)),
            explanation=layout.explanation((run.name, run.condition["about"]) for run in _one_per_name(self.results)),
            sections="\n".join(section.html for section in (*self.sequences, *self.experiments)),
            provenance=_provenance_html(self.provenance),
        )


def read_report(store: Store, videos: bool = True) -> Report:
    """Rollouts made for the report are cached in OUT/report/cache."""
    results, cache = read_results(store), ReportCache(store.folder / "report" / "cache")
    provenance = read_provenance(store, results)  # first: a damaged stage is reported before anything is cached
    sequences = gather_scores(results)
    video_count = sum(len(runs_to_record(scores)) for scores in sequences)
    video_bytes = MAX_VIDEO_BYTES // video_count if videos and video_count else 0
    names = condition_names(sequences)
    sections = [
        read_sequence_section(store, scores, all_conditions=names, cache=cache, video_bytes=video_bytes)
        for scores in sequences
    ]
    cache.commit()
    return Report(results, sections, read_experiment_sections(store), provenance)


def _subtitle(provenance: Provenance, sequences: Sequence[SequenceScores]) -> str:
    titles = list(dict.fromkeys(title for scores in sequences for title in scores.titles))
    orders = f", in {len(sequences)} orders" if len(sequences) > 1 else ""
    seeds = f"{len(provenance.seeds)} seed{'s' if len(provenance.seeds) != 1 else ''}"
    budget = "" if provenance.fraction == 1 else f", with {provenance.fraction:g} of the full training budget"
    return f"{listed(titles) or 'No tasks'}{orders}, {seeds}{budget}"


def _one_per_name(results: list[RunResult]) -> list[RunResult]:
    """One run of each condition, in the order of the table of conditions; without the points of a sweep."""
    named = {result.name: result for result in results if not result.condition.get("base")}
    return sorted(named.values(), key=lambda result: rank_of(result.name))


def _provenance_html(provenance: Provenance) -> str:
    """The facts, and the longer tables folded."""
    tables = "\n".join(
        f"<details><summary>{escape(table.title)}</summary>{html_table(table, 0)}</details>"
        for table in provenance.tables
    )
    return layout.definition_list(provenance.facts) + tables


# -- files


def write_page(store: Store, path: str | Path, videos: bool = True) -> Path:
    """Writes the page as one file that needs no network, no scripts and no other files."""
    return _write(Path(path), read_report(store, videos).html)


def write_report(store: Store, commands: Sequence[str] = (), videos: bool = True) -> Path:
    """Writes OUT/report: index.html, scores.md, results.csv, figures/, tables/ and videos/; returns the page's path."""
    report, folder = read_report(store, videos), store.folder / "report"
    several = len(report.sequences) > 1
    for place, section in enumerate(report.sequences):
        prefix = f"{place + 1}-" if several else ""
        _write_section(folder, section, prefix)
        for video in section.videos:
            _write(folder / "videos" / f"{prefix}{video.file_name}", video.content)
    for section in report.experiments:
        _write_section(folder, section)
    _write_tables(folder / "tables", [*report.provenance.tables, report.provenance.every_stage])
    _write(folder / "scores.md", markdown_report(store, commands))
    _write(folder / "results.csv", tidy.as_csv(report.results, report.provenance.fraction))
    return _write(folder / "index.html", report.html)


def _write_section(folder: Path, section: Section, prefix: str = "") -> None:
    for figure in section.figures:
        for name, content in figure.files.items():
            _write(folder / "figures" / f"{prefix}{name}", content)
    _write_tables(folder / "tables", section.tables, prefix)


def _write_tables(folder: Path, tables: Iterable[TextTable], prefix: str = "") -> None:
    for table in tables:
        _write(folder / f"{prefix}{table.stem}.tex", latex_table(table))
        _write(folder / f"{prefix}{table.stem}.csv", csv_table(table))


def _write(path: Path, content: str | bytes) -> Path:
    atomic_write(path, content.encode() if isinstance(content, str) else content)
    return path
