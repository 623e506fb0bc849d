"""What the page says about one sequence of tasks, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from reaper.report import state_images
from reaper.report.cache import ReportCache
from reaper.report.curves import groups_with_equal_phases, learning_curves
from reaper.report.findings import BASELINE, FEATURED, caveats, final_level
from reaper.report.generated_states import GeneratedStates, read_generated_states
from reaper.report.layout import prose
from reaper.report.rendering import RenderedFigure, render_figure, render_for_files
from reaper.report.rollouts import RolloutVideo, read_rollout_videos
from reaper.report.score_figures import bar_chart, score_matrices
from reaper.report.score_tables import TextTable
from reaper.report.scores import SequenceScores
from reaper.report.table_formats import html_table, sequence_tables
from reaper.report.unfinished import describe, find_unfinished
from reaper.results.runs import RunResult
from reaper.storage.store import Store

BARS = (
    "What the last agent can still do on each task. Bars that reach the dashed line play as well as a network trained "
    "on that task alone; bars near zero play no better than chance."
)
CURVES = (
    "Scores while the tasks are learnt one after another; the task changes at the dashed lines, and each panel is "
    "tinted while its own task is being learnt. A line that falls after that is forgetting."
)
SPREAD = " Lines are means over seeds, bands one standard deviation."
MATRICES = "Normalised scores after each task (down) on each task (across); brighter is better."
FILMS = (
    "One network plays every task it has learnt (down), after each task (across); the number is the score so far. "
    "Forgetting is a row that was played well and no longer is."
)
DREAMS_STILL = "Real states and dreams of {name} (seed {seed}): the newest frame of each."


@dataclass(frozen=True)
class Section:
    """All there is to say about one sequence of tasks."""

    scores: SequenceScores
    caveats: list[str]
    overview: list[RenderedFigure]
    matrices: list[RenderedFigure]
    dreams: list[GeneratedStates]  # the featured condition's first
    films: list[RolloutVideo]
    remarks: list[str] = field(default_factory=list)  # why there are no films

    @property
    def grids(self) -> list[TextTable]:
        return [*sequence_tables(self.scores), *map(state_images.share_table, self.dreams)]

    @property
    def figures(self) -> Iterator[RenderedFigure]:
        """Those that are written beside the page."""
        yield from (*self.overview, *self.matrices)
        for dreams in self.dreams:
            about = DREAMS_STILL.format(name=dreams.condition, seed=dreams.seed)
            yield render_for_files(
                f"dreams-{dreams.condition}", about, lambda theme, d=dreams: state_images.still(d, theme)
            )

    @property
    def html(self) -> str:
        parts = [f"<h2>{escape(' → '.join(self.scores.titles))}</h2>"]
        if sentence := final_level(self.scores):
            parts.append(f"<p>{prose(sentence)}</p>")
        if self.caveats:
            items = "".join(f"<li>{escape(text)}</li>" for text in self.caveats)
            parts.append(f'<ul class="cautions">{items}</ul>')
        parts += [figure.html for figure in self.overview]
        parts += [html_table(grid) for grid in sequence_tables(self.scores)]
        parts += [figure.html for figure in self.matrices]
        return f"<section>{''.join([*parts, *self._dreams(), *self._films()])}</section>"

    def _dreams(self) -> Iterator[str]:
        """The first condition's dreams in full; the others' are there for those who ask."""
        for place, dreams in enumerate(self.dreams):
            body = state_images.for_page(dreams) + html_table(state_images.share_table(dreams), 4)
            if place == 0:
                yield f"<h3>Dreams</h3>{body}"
            else:
                yield f"<details><summary>Dreams of {escape(dreams.condition)}</summary>{body}</details>"

    def _films(self) -> Iterator[str]:
        if self.films:
            films = "".join(film.html for film in self.films)
            yield f'<h3>Watch it</h3><p class="note">{FILMS}</p><div class="films">{films}</div>'
        if self.remarks:
            yield f'<p class="note">{escape(" ".join(self.remarks))}</p>'


def read_sequence_section(
    store: Store, scores: SequenceScores, names: list[str], kept: ReportCache, film_bytes: int
) -> Section:
    """`names` are all conditions of the folder; `film_bytes` is what one film may take, nothing for no films."""
    overview = render_figure("bars", BARS, lambda theme: bar_chart(scores, theme))
    for place, together in enumerate(groups_with_equal_phases(scores)):
        name = f"curves-{place}" if place else "curves"
        about = CURVES + (SPREAD if any(len(condition.runs) > 1 for condition in together) else "")
        overview += render_figure(name, about, lambda theme, t=together: learning_curves(scores, t, theme))
    ordered = sorted(scores.conditions, key=lambda condition: condition.retention != FEATURED)
    dreams = [found for condition in ordered if (found := read_generated_states(store, condition, kept))]
    films, remarks = read_rollout_videos(store, runs_to_record(scores), kept, film_bytes) if film_bytes else ([], [])
    return Section(
        scores,
        [*describe(find_unfinished(store, scores.runs)), *caveats(scores, names)],
        overview,
        render_figure("matrices", MATRICES, lambda theme: score_matrices(scores, theme)),
        dreams,
        films,
        remarks,
    )


def runs_to_record(scores: SequenceScores) -> list[RunResult]:
    """The first condition that does nothing against forgetting and the featured one; else the first there is."""
    chosen = [
        next((condition for condition in scores.conditions if condition.retention == retention), None)
        for retention in (BASELINE, FEATURED)
    ]
    return [condition.runs[0] for condition in chosen if condition] or [c.runs[0] for c in scores.conditions[:1]]
