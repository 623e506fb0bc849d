"""One table or figure of the paper on the page: what the paper has, what was measured, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reaper.report.findings import listed
from reaper.report.reproduction.evidence import Group
from reaper.report.table_formats import markdown_table
from reaper.report.text_table import UNKNOWN, TextTable
from reaper.results.commands import merged_commands
from reaper.results.queue import Entry, Progress
from reaper.results.studies import RUNS
from reaper.study.conditions import MAIN


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper."""

    title: str
    experiment: str  # that reproduces it
    paper: str  # what it shows there, in a sentence or two
    tables: Sequence[TextTable]
    verdict: str
    images: Sequence[str] = field(default_factory=list)  # Markdown


def section_markdown(section: Section, groups: Sequence[Group], queue: Sequence[Progress], runs: bool = True) -> str:
    """`runs`: also how it was run, and what is left; False where a section above has said so."""
    parts = [f"## {section.title}", section.paper]
    for table in section.tables:
        parts += [f"**{table.title}**", markdown_table(table), *table.notes]
    parts += section.images
    parts.append(f"**Verdict.** {section.verdict}")
    if runs:
        parts += [*_runs(section.experiment, groups), *_left(section.experiment, queue)]
    return "\n\n".join(parts)


def _runs(experiment: str, groups: Sequence[Group]) -> list[str]:
    """The commands, and a table of where and when."""
    commands: list[str] = []
    rows = []
    for group in groups:
        found = group.studies(experiment)
        if not found:
            continue
        commands += [line for _, study in found for line in study.command.splitlines()]
        seeds = sorted({study.seed for _, study in found})
        minutes = sum(study.seconds for _, study in found) / 60
        dates = sorted({study.finished for _, study in found})
        rows.append(
            (
                group.sequence,
                group.preset,
                f"{group.fraction:g}",
                ", ".join(map(str, seeds)),
                dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
                ", ".join(sorted({source.commit or "?" for source, _ in found})),
                f"{minutes:,.0f} min" if minutes else UNKNOWN,
                "; ".join(sorted({device for source, _ in found for device in source.devices})),
            )
        )
    if not rows:
        return []
    header = ("sequence", "preset", "fraction", "seeds", "finished", "commit", "time of its stages", "device")
    block = "\n".join(["```sh", *merged_commands(commands), "```"])
    return [block, markdown_table(TextTable("How it was run", header, rows))]


def _left(experiment: str, queue: Sequence[Progress]) -> list[str]:
    """What of the queue is still to run, and what that should cost."""
    lines = []
    for row in queue:
        entry = row.entry
        if experiment == _experiment_of(entry) and row.left:
            what = f"{listed(list(entry.conditions))} on {entry.sequence}" if entry.conditions else entry.sequence
            what += "".join(f" with --{name} {value}" for name, value in entry.overrides.items())
            seeds = f"seed{'s' if len(row.left) > 1 else ''} {listed(list(map(str, row.left)))}"
            lines.append(
                f"- {'Not run yet' if not row.finished else 'Still to run'}: {what}, preset {entry.preset}, "
                f"fraction {entry.fraction:g}, {seeds}; predicted {duration(row.minutes_left)} ({entry.machine})."
            )
    return ["\n".join(lines)] if lines else []


def _experiment_of(entry: Entry) -> str:
    """Conditions of `reaper run` belong to the figure that shows them."""
    if entry.study != RUNS:
        return entry.study
    return "main" if set(entry.conditions) <= set(MAIN) else "extended"


def duration(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
