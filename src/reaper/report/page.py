"""One self-contained page about a folder of runs, and the folder of files that goes with it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from reaper.files import write_whole
from reaper.report import analyses, layout
from reaper.report.curves import learning_curves
from reaper.report.figures import bar_chart, score_matrices
from reaper.report.findings import cautions, headline, listed, standing
from reaper.report.making import Making, read_making
from reaper.report.pictures import dreams, read_pictures
from reaper.report.rows import as_csv
from reaper.report.scores import SequenceScores, gather_scores, rank_of
from reaper.report.tables import for_html, for_markdown, grids_of, names_of
from reaper.report.theme import DARK, LIGHT, Theme
from reaper.results import RunResult, read_results
from reaper.store import Store

BARS = (
    "What the last agent can still do on each task. Bars that reach the dashed line play as well as a network trained "
    "on that task alone; bars near zero play no better than chance."
)
CURVES = (
    "Scores while the tasks are learnt one after another; the task changes at the dashed lines, and each panel is "
    "tinted while its own task is being learnt. A line that falls after that is forgetting. With several seeds, the "
    "line is their mean and the band one standard deviation."
)
MATRICES = "Normalised scores after each task (down) on each task (across); brighter is better."
DREAMS = (
    "What {name} remembers by (seed {seed}): states its generator makes up, which stand in for the experience that was "
    "thrown away. They need not look right; rehearsing them only has to keep the old answers in place."
)


@dataclass(frozen=True)
class Illustration:
    """A figure in both themes."""

    name: str
    caption: str
    light: bytes
    dark: bytes

    @property
    def html(self) -> str:
        def source(png: bytes) -> str:
            return f"data:image/png;base64,{base64.b64encode(png).decode()}"

        return (
            f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{source(self.dark)}">'
            f'<img src="{source(self.light)}" alt="{escape(self.caption)}"></picture>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


def _prose(text: str) -> str:
    """Escaped, with a number never parted from its per cent sign."""
    return escape(text).replace(" %", "&nbsp;%")


def _both(name: str, caption: str, draw: Callable[[Theme], bytes | None]) -> list[Illustration]:
    light, dark = draw(LIGHT), draw(DARK)
    return [Illustration(name, caption, light, dark)] if light and dark else []


def _illustrate_scores(scores: SequenceScores) -> list[Illustration]:
    curves = zip(learning_curves(scores, LIGHT), learning_curves(scores, DARK), strict=True)
    return [
        *_both("bars", BARS, lambda theme: bar_chart(scores, theme)),
        *(Illustration(f"curves-{i}" if i else "curves", CURVES, *pair) for i, pair in enumerate(curves)),
    ]


def _illustrate_memories(store: Store, scores: SequenceScores) -> list[Illustration]:
    found = _both("matrices", MATRICES, lambda theme: score_matrices(scores, theme))
    for condition in scores.conditions:
        seed, real, dreamt = read_pictures(store, condition)
        if dreamt:
            caption = DREAMS.format(name=condition.name, seed=seed)
            found += _both(f"dreams-{condition.name}", caption, lambda theme, r=real, d=dreamt: dreams(r, d, theme))
    return found


@dataclass(frozen=True)
class Section:
    """All there is to say about one sequence of tasks."""

    scores: SequenceScores
    cautions: list[str]
    first: list[Illustration]  # before the tables
    then: list[Illustration]  # after them

    @property
    def html(self) -> str:
        parts = [f"<h2>{escape(' → '.join(self.scores.titles))}</h2>"]
        if sentence := standing(self.scores):
            parts.append(f"<p>{_prose(sentence)}</p>")
        if self.cautions:
            items = "".join(f"<li>{escape(text)}</li>" for text in self.cautions)
            parts.append(f'<ul class="cautions">{items}</ul>')
        parts += [figure.html for figure in self.first]
        parts += [for_html(grid) for grid in grids_of(self.scores)]
        parts += [figure.html for figure in self.then]
        return f"<section>{''.join(parts)}</section>"


@dataclass(frozen=True)
class Report:
    """A folder of runs, read once, for the page and the files beside it."""

    results: list[RunResult]
    sections: list[Section]
    making: Making
    experiments: str = ""  # HTML

    @property
    def html(self) -> str:
        sequences = [section.scores for section in self.sections]
        return layout.page(
            _prose(headline(sequences) if sequences or not self.experiments else analyses.HEADLINE),
            escape(_subtitle(self.making, sequences)),
            _pairs((result.name, result.condition["about"]) for result in _one_of_each(self.results)),
            "\n".join([*(section.html for section in self.sections), self.experiments]),
            _making_html(self.making),
        )


def read_report(store: Store) -> Report:
    results = read_results(store)
    sequences = gather_scores(results)
    names = names_of(sequences)
    sections = [
        Section(scores, cautions(scores, names), _illustrate_scores(scores), _illustrate_memories(store, scores))
        for scores in sequences
    ]
    return Report(results, sections, read_making(store, results), analyses.sections(store))


def _subtitle(making: Making, sequences: Sequence[SequenceScores]) -> str:
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


def _making_html(making: Making) -> str:
    grids = [grid for grid in (making.time, making.settings, making.own_settings) if grid and grid.rows]
    return _pairs(making.facts) + "\n".join(map(for_html, grids))


def write_page(store: Store, path: str | Path) -> Path:
    """The whole report as one file that needs nothing else: no network, no scripts, no other files."""
    return _written(Path(path), read_report(store).html)


def write_report(store: Store, commands: Sequence[str] = ()) -> Path:
    """Writes OUT/report: index.html, its figures, scores.csv and scores.md; returns the path of the page."""
    report, folder = read_report(store), store.folder / "report"
    for number, section in enumerate(report.sections):
        prefix = f"{number + 1}-" if len(report.sections) > 1 else ""
        for figure in (*section.first, *section.then):
            _written(folder / f"{prefix}{figure.name}.png", figure.light)
    _written(folder / "scores.md", for_markdown(store, commands))
    _written(folder / "scores.csv", as_csv(report.results))
    return _written(folder / "index.html", report.html)


def _written(path: Path, content: str | bytes) -> Path:
    write_whole(path, content.encode() if isinstance(content, str) else content)
    return path
