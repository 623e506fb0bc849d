"""Learning curves over a whole sequence, one panel a task, as in the paper's main figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.report.scores import ConditionScores, SequenceScores, mean_of_known
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, style_of
from reaper.results.runs import RunResult

ALONE, RANDOM = "learnt alone", "random play"  # the levels that curves are held against
Ends = dict[str, tuple[int, float]]  # condition -> frames and score at the end of its curve
LABEL_POINTS = 9.5  # from one label to the next
LETTERS = 68  # of the size of a panel's remarks, side by side across it


def phase_lengths(condition: ConditionScores) -> tuple[int, ...]:
    return tuple(phase.agent_steps for phase in condition.runs[0].phases)


def groups_with_equal_phases(scores: SequenceScores) -> list[list[ConditionScores]]:
    """Conditions whose task switches fall on the same frames share a figure; usually that is all of them."""
    together: dict[tuple[int, ...], list[ConditionScores]] = {}
    for condition in scores.conditions:
        if any(phase.rows for run in condition.runs for phase in run.phases):
            together.setdefault(phase_lengths(condition), []).append(condition)
    return list(together.values())


def curve(run: RunResult, task: str) -> dict[int, float]:
    """Agent steps since the beginning of the sequence -> mean score on the task."""
    points, begun = {}, 0
    for phase in run.phases:
        for row in phase.rows:
            if row["task"] == task:
                points[begun + row["agent_steps"]] = float(np.mean(row["scores"]))
        begun += phase.agent_steps
    return points


def over_seeds(runs: Sequence[RunResult], task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, and the mean and standard deviation over the seeds that have come so far."""
    curves = [curve(run, task) for run in runs]
    frames = sorted({frame for points in curves for frame in points})
    values = np.array([[points.get(frame, np.nan) for frame in frames] for points in curves]).reshape(len(curves), -1)
    mean = mean_of_known(values)
    return np.array(frames), mean, np.sqrt(mean_of_known((values - mean) ** 2))


def learning_curves(scores: SequenceScores, conditions: list[ConditionScores], theme: Theme = LIGHT) -> Figure:
    """A panel a task over the whole sequence, the conditions in the order of where they end."""
    count, lengths = len(scores.tasks), phase_lengths(conditions[0])
    panel = max(1.4, 0.3 + LABEL_POINTS / 72 * len(conditions))  # inches: every label has a line of its own
    figure = new_figure(WIDTH, (panel + 0.12) * count + 0.75, layout="constrained")
    panels = figure.subplots(count, 1, sharex=True, squeeze=False).ravel()
    end = sum(lengths)
    for j, axes in enumerate(panels):
        ends = _panel(axes, scores, conditions, j, theme)
        _switches(axes, scores, lengths, j, theme)
        axes.set_xlim(0, 1.012 * end)  # the last markers stay whole
        _label_ends(axes, ends, LABEL_POINTS / 72 / panel, theme)
    unit, size = ("millions", 1e6) if end >= 2e6 else ("thousands", 1e3)
    panels[-1].set_xlabel(f"agent steps ({unit})")
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value / size:g}")
    figure.align_ylabels(panels)
    known = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    names = [name for name in (ALONE, RANDOM) if name in known]
    figure.legend([known[name] for name in names], names, loc="outside upper left", ncols=2, fontsize=8.5)
    return figure


def _panel(axes: Axes, scores: SequenceScores, conditions: list[ConditionScores], task: int, theme: Theme) -> Ends:
    """Draws a task's curves; condition -> where its curve ends."""
    name = scores.tasks[task]
    ends: Ends = {}
    for condition in conditions:
        style = style_of(condition.name, theme)
        frames, mean, spread = over_seeds(condition.runs, name)
        if not len(frames):
            continue
        every = max(1, len(frames) // 12)
        axes.plot(frames, mean, linewidth=1.5, markersize=3.6, markevery=every, **style.look)
        if len(condition.runs) > 1:
            axes.fill_between(frames, mean - spread, mean + spread, color=style.colour, alpha=0.16, linewidth=0)
        ends[condition.name] = (int(frames[-1]), float(mean[-1]))
    runs = [run for condition in conditions for run in condition.runs]
    _reference(axes, ALONE, [run.single[task] for run in runs], "solid", theme)
    _reference(axes, RANDOM, [run.random[task] for run in runs], (0, (1, 2.5)), theme)
    axes.set_ylabel(scores.titles[task], fontweight="bold")
    axes.tick_params(labelsize=8)
    axes.margins(y=0.12)
    return ends


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places in [0, 1], moved as little as needed to lie a gap apart, within [0, 1] where they fit."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap) if spread else place)
    ceiling = 1.0
    for i in reversed(range(len(spread))):
        spread[i] = min(spread[i], ceiling)
        ceiling = spread[i] - gap
    return spread


def _label_ends(axes: Axes, ends: Ends, gap: float, theme: Theme) -> None:
    """Names every curve at its end's height, with a sample of its line: no colour has to be looked up in a legend."""
    (low, high), (_, right) = axes.get_ylim(), axes.get_xlim()
    names = sorted(ends, key=lambda name: (ends[name][1], name))
    levels = [(ends[name][1] - low) / (high - low) for name in names]
    outside: Any = {"transform": axes.transAxes, "clip_on": False}
    for name, level, place in zip(names, levels, spread_out(levels, gap), strict=True):
        style = style_of(name, theme)
        leader: Any = {"color": style.colour, "linewidth": 0.6, **outside}
        if abs(place - level) > 0.01:  # else a gap: the sample is no part of the curve
            axes.plot([0.995, 1.03], [level, place], **leader)
        axes.plot([ends[name][0] / right, 0.992], [level, level], linestyle=(0, (1, 3)), **leader)
        axes.plot(
            [1.035, 1.062, 1.089], [place] * 3, linewidth=1.4, markersize=3.4, markevery=[1], **style.look, **outside
        )
        axes.text(1.099, place, name, fontsize=8, va="center_baseline", **outside)


def _reference(axes: Axes, label: str, games: list[np.ndarray], line: Any, theme: Theme) -> None:
    level = float(mean_of_known(np.concatenate(games)))
    if not math.isnan(level):
        axes.axhline(level, color=theme.muted, linewidth=0.9, linestyle=line, label=label, zorder=1)


def _switches(axes: Axes, scores: SequenceScores, lengths: tuple[int, ...], task: int, theme: Theme) -> None:
    """A dashed line at each task switch; the phase in which this panel's task is trained is tinted."""
    borders = np.cumsum([0, *lengths])
    axes.axvspan(borders[task], borders[task + 1], color=theme.faint, alpha=0.55, linewidth=0, zorder=0)
    for border in borders[1:-1]:
        axes.axvline(border, color=theme.muted, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1)
    if task == 0:
        for title, left, right in zip(scores.titles, borders, borders[1:], strict=False):
            if left == right:  # learnt elsewhere
                continue
            room = LETTERS * (right - left) / borders[-1]  # above this phase
            words = next(
                (w for w in (f"learning {title}", title) if len(w) <= room), f"{title[: max(2, int(room) - 1)]}."
            )
            place = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": theme.muted}
            axes.text((left + right) / 2, 1.03, words, transform=axes.get_xaxis_transform(), **place)
