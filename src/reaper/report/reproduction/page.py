"""docs/reproduction.md, from the committed summaries of results and the queue. Nothing on it is typed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reaper.report.reproduction.claims import claims_table, judged, summary_sentence
from reaper.report.reproduction.claims_figure import ALT, claims_figure
from reaper.report.reproduction.course_figure import course_figure
from reaper.report.reproduction.differences import decline, explanations
from reaper.report.reproduction.evidence import Group, read_groups, reported
from reaper.report.reproduction.figure_sections import COURSE_IMAGE, extend_results, main_results, policy_only_results
from reaper.report.reproduction.overlap_section import fisher_overlap
from reaper.report.reproduction.score_table import score_table
from reaper.report.reproduction.section import Section, duration, section_markdown
from reaper.report.reproduction.student_section import scratch
from reaper.report.reproduction.sweep_sections import grids, lscale
from reaper.report.table_formats import markdown_table
from reaper.report.text_table import UNKNOWN, TextTable
from reaper.report.theme import LIGHT, as_png, drawing
from reaper.results.queue import Progress, progress, read_queue
from reaper.results.studies import read_sources
from reaper.study.conditions import MAIN

CLAIMS_IMAGE = "images/claims.png"

IMAGES = Section(
    "Fig. real-fake-ims: real and generated states",
    "item-quality",
    "Images from the replay next to generated ones; the paper prints no numbers, and says that generated states look "
    "like the games with clear visual differences.",
    [],
    "Reproduced as a figure: every report page of RePR shows each task's real states next to their nearest generated "
    "ones, such as [that of the Atari run](results/atari-3-report.html), where games are recognisable and details are "
    "lost. How much that costs a student is in Table scratch.",
)


def sections(groups: Sequence[Group]) -> list[Section]:
    """In the paper's order."""
    return [
        score_table(groups),
        main_results(groups),
        scratch(groups),
        IMAGES,
        extend_results(groups),
        policy_only_results(groups),
        fisher_overlap(groups),
        lscale(groups),
        grids(groups),
    ]


def reproduction_page(folder: Path) -> str:
    """The whole page as Markdown."""
    everything = read_groups(folder)
    groups = reported(everything)
    sources = [source for source, _ in read_sources(folder)]
    queue = progress(read_queue(folder), sources)
    parts = [
        "# The paper, table by table",
        "Every table and figure of the paper with its numbers, and ours next to them. `reaper reproduction "
        "docs/results/data --markdown docs/reproduction.md` writes this page from the summaries in that folder; a test "
        "fails if page and summaries differ. Atari results at a fraction of the budget say so. The games of arcade-3 "
        "and arcade-6 are our own and small ([rules](lab/arcade.md)), so only shares and patterns compare with the "
        "paper there. Their settings were chosen with seeds 0 to 2; seeds from 20 on were not looked at before. "
        "[Deviations](deviations.md) lists what the paper leaves open.",
        f"**In short.** {summary_sentence(groups)}",
        "## What was run",
        _table(_groups_table(groups)),
        "## Claims",
        *_claims_image(groups),
        _table(claims_table(groups)),
    ]
    shown: set[str] = set()
    for section in sections(groups):
        parts.append(section_markdown(section, groups, queue, runs=section.experiment not in shown))
        shown.add(section.experiment)
    if found := explanations(groups, everything):
        parts += ["## Where the pattern differs", *found, *(_titled(table) for table in decline(groups))]
    parts += ["## What is next", _queue(queue)]
    parts += [f"**{source.name}.** {source.note}" for source in sources if source.note]
    return "\n\n".join(parts) + "\n"


def page_images(folder: Path) -> dict[str, bytes]:
    """Name relative to the page -> PNG."""
    groups = reported(read_groups(folder))
    with drawing(LIGHT):
        figures = {CLAIMS_IMAGE: claims_figure(groups), COURSE_IMAGE: course_figure(groups)}
        return {name: as_png(figure) for name, figure in figures.items() if figure}


def _claims_image(groups: Sequence[Group]) -> list[str]:
    if not judged(groups):
        return []
    caption = (
        "*Shaded: where the whole interval must lie to confirm the claim. Filled: confirmed or refuted. Hollow: open. "
        "One seed has no interval.*"
    )
    return [f"![{ALT}]({CLAIMS_IMAGE})", caption]


def _groups_table(groups: Sequence[Group]) -> TextTable:
    """What the short names in headings stand for."""
    rows = []
    for group in groups:
        budget = "the full budget" if group.share == 1 else f"{group.share:g} of the paper's"
        rows.append(
            (
                group.name,
                group.preset,
                budget if group.is_atari or group.share == 1 else f"{group.share:g} of the full budget",
                f"`{group.overrides}`" if group.overrides else "",
                ", ".join(map(str, group.seeds)),
                ", ".join(sorted(group.finished_conditions & set(MAIN), key=MAIN.index)) or UNKNOWN,
            )
        )
    header = ("name", "preset", "budget", "settings changed", "seeds", "main conditions")
    return TextTable("What was run", header, rows)


def _table(table: TextTable) -> str:
    return "\n\n".join([markdown_table(table), *table.notes])


def _titled(table: TextTable) -> str:
    return f"**{table.title}**\n\n{_table(table)}"


def _queue(queue: Sequence[Progress]) -> str:
    rows = [
        (
            f"`{row.entry.command_for(row.left or row.entry.seeds)}`",
            f"{len(row.finished)} of {len(row.entry.seeds)} seeds",
            f"{sum(row.finished.values()):,.0f} min" if row.finished else "",
            duration(row.minutes_left) if row.left else "",
            row.entry.machine,
        )
        for row in queue
    ]
    total = sum(row.minutes_left for row in queue)
    notes = [
        f"In order of importance; in all {duration(total)} are left. `python benchmarks/campaign.py queue "
        "docs/results/data` prints the same list, also against output folders that have not been added yet "
        "([a study in slices](guides/campaign.md)). Times of finished seeds are those of their stages, of which "
        "experiments in one folder share some.",
    ]
    header = ("command", "done", "took", "predicted for the rest", "machine")
    return _table(TextTable("Queue", header, rows, notes))
