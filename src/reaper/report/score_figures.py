"""Figures of final scores: a bar chart and the score matrices."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.report.curves import ALONE, RANDOM
from reaper.report.scores import ConditionScores, SequenceScores
from reaper.report.text_table import number
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, style_of

ORDINALS = ("first", "second", "third", *(f"{n}th" for n in range(4, 100)))
_LOWEST, _HIGHEST = -0.3, 1.45  # bars are clipped to these normalised scores; the numbers next to them are not


def bar_chart(scores: SequenceScores, theme: Theme = LIGHT) -> Figure | None:
    """Each condition's final normalised score on each task; None where no condition is complete."""
    if not scores.complete:
        return None
    count = len(scores.tasks)
    across = count if count <= 4 else 3
    down = math.ceil(count / across)
    height = down * (0.95 + 0.3 * len(scores.complete))
    figure = new_figure(WIDTH, height, layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for j, axes in enumerate(panels):
        if j < count:
            _bars(axes, scores, j, theme)
        else:
            axes.set_visible(False)
    return figure


def _bars(axes: Axes, scores: SequenceScores, task: int, theme: Theme) -> None:
    conditions = scores.complete
    values = [float(condition.normalised[task]) for condition in conditions]
    axes.axvline(0, color=theme.muted, linewidth=0.8)
    patch = {"fc": theme.background, "lw": 0, "pad": 0.6}  # behind text, which may lie on a line
    axes.axvline(1, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 3)))
    for place, (condition, value) in enumerate(zip(conditions, values, strict=True)):
        if math.isnan(value):
            axes.text(0.03, place, "undefined", color=theme.muted, fontsize=7, va="center", bbox=patch)
            continue
        shown = float(np.clip(value, _LOWEST, _HIGHEST))
        colour = style_of(condition.name, theme).colour
        axes.barh(place, shown, height=0.62, color=colour)
        seeds = [np.clip(run.matrix[-1, task], _LOWEST, _HIGHEST) for run in condition.complete]
        if len(seeds) > 1:
            axes.plot(seeds, [place] * len(seeds), ".", markersize=3.5, color=theme.text, alpha=0.75)
        label_at = max(shown, 0.0, *(seed for seed in seeds if not math.isnan(seed))) + 0.04
        text = number(value) if shown == value else f"{number(value)} {'›' if value > 0 else '‹'}"
        axes.text(label_at, place, text, va="center", fontsize=8, bbox=patch)
    below = any(condition.normalised[j] < 0 for condition in conditions for j in range(len(scores.tasks)))
    axes.set_xlim(_LOWEST if below else -0.02, _HIGHEST + 0.25)  # the same in all panels
    axes.set_ylim(len(conditions) - 0.4, -0.6)
    axes.set_yticks(range(len(conditions)), [condition.name for condition in conditions], color=theme.text)
    axes.tick_params(length=0)
    axes.set_xticks([0, 1], [RANDOM, ALONE], fontsize=8)
    axes.set_title(scores.titles[task], color=theme.text, fontweight="bold", pad=16)
    under = {"xytext": (0, 4), "textcoords": "offset points", "color": theme.muted, "fontsize": 8}
    axes.annotate(f"learnt {ORDINALS[task]}", (0, 1), xycoords="axes fraction", **under)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)


def score_matrices(scores: SequenceScores, theme: Theme = LIGHT) -> Figure | None:
    """One heat map per condition: normalised scores after each task (rows) on each task (columns)."""
    known = [condition for condition in scores.conditions if not np.isnan(condition.raw_matrix).all()]
    if not known:
        return None
    across = 3 if len(scores.tasks) <= 4 else 2
    down = math.ceil(len(known) / across)
    side = WIDTH / across
    figure = new_figure(WIDTH, down * (side * 0.86 + 0.35))
    figure.set_layout_engine("constrained", h_pad=0.08)  # room between a row's labels and the next row's titles
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for place, axes in enumerate(panels):
        if place < len(known):
            _matrix(axes, known[place], scores.titles, theme=theme, labelled=place % across == 0)
        else:
            axes.set_visible(False)
    return figure


def _matrix(axes: Axes, condition: ConditionScores, titles: tuple[str, ...], *, theme: Theme, labelled: bool) -> None:
    matrix, count = condition.matrix, len(titles)
    colours = mpl.colormaps["cividis"].with_extremes(bad=theme.faint)
    axes.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=1, aspect="equal")
    small = 8.5 if count <= 4 else 7
    for k in range(count):
        for j in range(count):
            value = float(matrix[k, j])
            colour = theme.muted if math.isnan(value) else "#ffffff" if value < 0.55 else "#000000"
            axes.text(j, k, number(value), ha="center", va="center", color=colour, fontsize=small)
    longest = 20 if count <= 4 else 28  # letters above a panel; longer names are printed smaller
    axes.set_title(condition.name, fontweight="bold", fontsize=min(10.0, 10.0 * longest / len(condition.name)))
    axes.set_xticks(range(count), [title.replace(" ", "\n") for title in titles], fontsize=small)
    axes.set_yticks(range(count), [f"after {title}" for title in titles] if labelled else [""] * count, fontsize=small)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
