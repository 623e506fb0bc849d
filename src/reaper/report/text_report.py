"""The report as text: tables for the terminal, and a complete Markdown document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from reaper.report.experiment_sections import ExperimentSection, read_experiment_sections
from reaper.report.findings import caveats, final_level, headline, listed
from reaper.report.provenance import Provenance, read_provenance
from reaper.report.score_tables import matrix_table, sequence_tables
from reaper.report.scores import SequenceScores, condition_names, gather_scores
from reaper.report.table_formats import TERMINAL_WIDTH, markdown_table, terminal_tables
from reaper.report.text_table import TextTable
from reaper.results.runs import read_results
from reaper.storage.store import Store

# -- terminal


def terminal_report(store: Store, experiment: str | None = None, width: int = TERMINAL_WIDTH) -> Iterator[Table | Text]:
    """What to print, in order: everything, or one experiment's tables. No table is wider than `width`."""
    if experiment is None:
        yield from _sequences_in_terminal(gather_scores(read_results(store)), width)
    for section in read_experiment_sections(store):
        if experiment in (None, section.experiment.name):
            yield from _experiment_in_terminal(section, width)


def _sequences_in_terminal(sequences: Sequence[SequenceScores], width: int) -> Iterator[Table | Text]:
    for scores in sequences:
        for table in sequence_tables(scores):
            yield from _in_terminal(table, f"{_label(scores)}: {table.title}", width)
        yield Text("\n".join(["", *caveats(scores, condition_names(sequences))]), style="italic")


def _label(scores: SequenceScores) -> str:
    """A sequence's name; of one that is named by the list of its tasks, their titles."""
    return ", ".join(scores.titles) if "," in scores.sequence else scores.sequence


def _in_terminal(table: TextTable, title: str, width: int) -> Iterator[Table | Text]:
    """A title, the table in as many parts as fit, and its notes at the full width."""
    for place, part in enumerate(terminal_tables(table, width)):
        yield Text(f"\n{title}" if place == 0 else "", style="bold")
        yield part
    yield Text("\n".join(table.notes), style="italic")


def _experiment_in_terminal(section: ExperimentSection, width: int) -> Iterator[Table | Text]:
    for table in section.tables:
        yield from _in_terminal(table, f"{section.experiment.name} on {section.data.sequence}: {table.title}", width)
    yield Text("\n".join(["", *([section.summary] if section.summary else []), *section.caveats]))


# -- Markdown


def markdown_report(store: Store, commands: Sequence[str] = ()) -> str:
    """A complete document; `commands` are those that filled the folder, verbatim."""
    results = read_results(store)
    sequences, provenance = gather_scores(results), read_provenance(store, results)
    seeds = ", ".join(map(str, provenance.seeds)) or "none"
    parts = ["# Results", headline(sequences)]
    if commands:
        parts.append("\n".join(["```sh", *commands, "```"]))
    parts.append(f"Fraction of the training budget: {provenance.fraction:g}. Seeds: {seeds}.")
    for scores in sequences:
        parts += _sequence_in_markdown(scores, condition_names(sequences))
    parts += _provenance_in_markdown(provenance)
    for section in read_experiment_sections(store):
        parts += _experiment_in_markdown(section)
    return "\n\n".join(parts) + "\n"


def _sequence_in_markdown(scores: SequenceScores, names: Sequence[str]) -> list[str]:
    parts = [f"## {scores.sequence}: {listed(scores.titles)}"]
    if sentence := final_level(scores):
        parts.append(sentence)
    if warnings := caveats(scores, names):
        parts.append("\n".join(f"- {text}" for text in warnings))
    for table in sequence_tables(scores):
        parts += [f"### {table.title}", markdown_table(table), *table.notes]
    if scores.conditions:
        parts += ["### Score matrices", "Mean score after each task on each task; in brackets, normalised."]
    for condition in scores.conditions:
        parts += [f"**{condition.name}**", markdown_table(matrix_table(condition, scores.titles))]
    return parts


def _provenance_in_markdown(provenance: Provenance) -> list[str]:
    parts = ["## How these results were produced", "\n".join(f"- {name}: {text}" for name, text in provenance.facts)]
    for table in provenance.tables:
        parts += [f"### {table.title}", markdown_table(table), *table.notes]
    return parts


def _experiment_in_markdown(section: ExperimentSection) -> list[str]:
    parts = [
        f"## Experiment {section.experiment.name}: {section.experiment.about}",
        f"{section.experiment.shows} of the paper. {section.summary}".strip(),
    ]
    if section.caveats:
        parts.append("\n".join(f"- {text}" for text in section.caveats))
    for table in section.tables:
        parts += [f"### {table.title}", markdown_table(table), *table.notes]
    return parts
