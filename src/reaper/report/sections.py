"""What the page says about one sequence of tasks, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from reaper.report import state_images as pictures
from reaper.report.cache import Kept
from reaper.report.curves import drawn_together, learning_curves
from reaper.report.embedding import Illustration, for_files, illustrate
from reaper.report.figures import bar_chart, score_matrices
from reaper.report.findings import BASELINE, FEATURED, cautions, standing
from reaper.report.generated_states import Dreams, read_dreams
from reaper.report.grids import Grid
from reaper.report.layout import prose
from reaper.report.rollouts import Film, filming
from reaper.report.scores import SequenceScores
from reaper.report.tables import for_html, grids_of
from reaper.report.unfinished import find_trouble, in_words
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
    cautions: list[str]
    overview: list[Illustration]
    matrices: list[Illustration]
    dreams: list[Dreams]  # the featured condition's first
    films: list[Film]
    remarks: list[str] = field(default_factory=list)  # why there are no films

    @property
    def grids(self) -> list[Grid]:
        return [*grids_of(self.scores), *map(pictures.share_grid, self.dreams)]

    @property
    def figures(self) -> Iterator[Illustration]:
        """Those that are written beside the page."""
        yield from (*self.overview, *self.matrices)
        for dreams in self.dreams:
            about = DREAMS_STILL.format(name=dreams.condition, seed=dreams.seed)
            yield for_files(f"dreams-{dreams.condition}", about, lambda theme, d=dreams: pictures.still(d, theme))

    @property
    def html(self) -> str:
        parts = [f"<h2>{escape(' → '.join(self.scores.titles))}</h2>"]
        if sentence := standing(self.scores):
            parts.append(f"<p>{prose(sentence)}</p>")
        if self.cautions:
            items = "".join(f"<li>{escape(text)}</li>" for text in self.cautions)
            parts.append(f'<ul class="cautions">{items}</ul>')
        parts += [figure.html for figure in self.overview]
        parts += [for_html(grid) for grid in grids_of(self.scores)]
        parts += [figure.html for figure in self.matrices]
        return f"<section>{''.join([*parts, *self._dreams(), *self._films()])}</section>"

    def _dreams(self) -> Iterator[str]:
        """The first condition's dreams in full; the others' are there for those who ask."""
        for place, dreams in enumerate(self.dreams):
            body = pictures.for_page(dreams) + for_html(pictures.share_grid(dreams), 4)
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


def read_section(store: Store, scores: SequenceScores, names: list[str], kept: Kept, film_bytes: int) -> Section:
    """`names` are all conditions of the folder; `film_bytes` is what one film may take, nothing for no films."""
    overview = illustrate("bars", BARS, lambda theme: bar_chart(scores, theme))
    for place, together in enumerate(drawn_together(scores)):
        name = f"curves-{place}" if place else "curves"
        about = CURVES + (SPREAD if any(len(condition.runs) > 1 for condition in together) else "")
        overview += illustrate(name, about, lambda theme, t=together: learning_curves(scores, t, theme))
    ordered = sorted(scores.conditions, key=lambda condition: condition.retention != FEATURED)
    dreams = [found for condition in ordered if (found := read_dreams(store, condition, kept))]
    films, remarks = filming(store, filmed(scores), kept, film_bytes) if film_bytes else ([], [])
    return Section(
        scores,
        [*in_words(find_trouble(store, scores.runs)), *cautions(scores, names)],
        overview,
        illustrate("matrices", MATRICES, lambda theme: score_matrices(scores, theme)),
        dreams,
        films,
        remarks,
    )


def filmed(scores: SequenceScores) -> list[RunResult]:
    """The first condition that does nothing against forgetting and the featured one; else the first there is."""
    chosen = [
        next((condition for condition in scores.conditions if condition.retention == retention), None)
        for retention in (BASELINE, FEATURED)
    ]
    return [condition.runs[0] for condition in chosen if condition] or [c.runs[0] for c in scores.conditions[:1]]
