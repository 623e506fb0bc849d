"""The page's section on one sequence of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from reaper.report import state_images
from reaper.report.cache import ReportCache
from reaper.report.curves import groups_with_equal_phases, learning_curves
from reaper.report.findings import BASELINE, FEATURED, caveats, final_level
from reaper.report.generated_states import GeneratedStates, read_generated_states
from reaper.report.layout import html_list, prose
from reaper.report.rendering import RenderedFigure, render_figure, render_for_files
from reaper.report.rollouts import RolloutVideo, read_rollout_videos
from reaper.report.score_figures import bar_chart, score_matrices
from reaper.report.score_tables import sequence_tables
from reaper.report.scores import SequenceScores
from reaper.report.table_formats import html_table
from reaper.report.text_table import TextTable
from reaper.report.unfinished import describe, find_unfinished
from reaper.results.runs import RunResult
from reaper.storage.store import Store

BARS = (
    "Normalised score of the final agent on each task. A bar that reaches the dashed line plays as well as a DQN "
    "trained on that task alone; a bar near zero plays no better than chance."
)
CURVES = (
    "Scores while the tasks are learnt one after another. The task changes at the dashed lines, and each panel is "
    "tinted while its own task is in training. A line that falls after that shows forgetting."
)
SPREAD = " Lines are means over seeds, bands one standard deviation."
MATRICES = "Normalised scores after each task (rows) on each task (columns); brighter is better."
VIDEOS = (
    "One network plays every task it has learnt (rows), after each task (columns); the number is the score so far. "
    "A row that is first played well and then badly shows forgetting."
)


@dataclass(frozen=True)
class SequenceSection:
    """Everything the page shows about one sequence of tasks."""

    scores: SequenceScores
    caveats: list[str]
    overview: list[RenderedFigure]
    matrices: list[RenderedFigure]
    generated: list[GeneratedStates]  # one per condition with a generator, the featured one first
    videos: list[RolloutVideo]
    remarks: list[str] = field(default_factory=list)  # why videos are missing

    @property
    def tables(self) -> list[TextTable]:
        return [*sequence_tables(self.scores), *map(state_images.share_table, self.generated)]

    @property
    def figures(self) -> Iterator[RenderedFigure]:
        """Those that are written alongside the page."""
        yield from (*self.overview, *self.matrices)
        for found in self.generated:
            caption = state_images.still_caption(found)
            name = f"generated-states-{found.condition}"
            yield render_for_files(name, caption, lambda theme, found=found: state_images.still(found, theme))

    @property
    def html(self) -> str:
        parts = [f"<h2>{escape(' → '.join(self.scores.titles))}</h2>"]
        if sentence := final_level(self.scores):
            parts.append(f"<p>{prose(sentence)}</p>")
        parts.append(html_list(self.caveats, "caveats"))
        parts += [figure.html for figure in self.overview]
        parts += [html_table(table) for table in sequence_tables(self.scores)]
        parts += [figure.html for figure in self.matrices]
        return f"<section>{''.join([*parts, *self._generated_html(), *self._videos_html()])}</section>"

    def _generated_html(self) -> Iterator[str]:
        """The first condition's states in full, the others' folded."""
        for place, found in enumerate(self.generated):
            body = state_images.html_states(found) + html_table(state_images.share_table(found), 4)
            if place == 0:
                yield f"<h3>Generated states</h3>{body}"
            else:
                summary = f"Generated states of {escape(found.condition)}"
                yield f"<details><summary>{summary}</summary>{body}</details>"

    def _videos_html(self) -> Iterator[str]:
        if self.videos:
            videos = "".join(video.html for video in self.videos)
            yield f'<h3>Videos</h3><p class="note">{VIDEOS}</p><div class="videos">{videos}</div>'
        if self.remarks:
            yield f'<p class="note">{escape(" ".join(self.remarks))}</p>'


def read_sequence_section(
    store: Store, scores: SequenceScores, *, all_conditions: list[str], cache: ReportCache, video_bytes: int
) -> SequenceSection:
    """`all_conditions` are those of the whole folder; `video_bytes` is the limit of one video, 0 for none."""
    ordered = sorted(scores.conditions, key=lambda condition: condition.retention != FEATURED)
    generated = [found for condition in ordered if (found := read_generated_states(store, condition, cache))]
    runs = runs_to_record(scores) if video_bytes else []
    videos, remarks = read_rollout_videos(store, runs, cache, video_bytes)
    return SequenceSection(
        scores=scores,
        caveats=[*describe(find_unfinished(store, scores.runs)), *caveats(scores, all_conditions)],
        overview=_overview(scores),
        matrices=render_figure("matrices", MATRICES, lambda theme: score_matrices(scores, theme)),
        generated=generated,
        videos=videos,
        remarks=remarks,
    )


def _overview(scores: SequenceScores) -> list[RenderedFigure]:
    figures = render_figure("bars", BARS, lambda theme: bar_chart(scores, theme))
    for place, group in enumerate(groups_with_equal_phases(scores)):
        name = f"curves-{place}" if place else "curves"
        caption = CURVES + (SPREAD if any(len(condition.runs) > 1 for condition in group) else "")
        figures += render_figure(name, caption, lambda theme, group=group: learning_curves(scores, group, theme))
    return figures


def runs_to_record(scores: SequenceScores) -> list[RunResult]:
    """Runs to make videos of: the first without a retention method and the featured one; else the first there is."""
    chosen = [
        next((condition for condition in scores.conditions if condition.retention == retention), None)
        for retention in (BASELINE, FEATURED)
    ]
    return [condition.runs[0] for condition in chosen if condition] or [c.runs[0] for c in scores.conditions[:1]]
