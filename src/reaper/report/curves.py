"""Learning curves over a whole sequence, one panel a task, as in the paper's main figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.report.scores import ConditionScores, SequenceScores, mean_of_known
from reaper.report.theme import LIGHT, WIDTH, Theme, as_png, drawing, new_figure, style_of
from reaper.results import RunResult


def phase_lengths(condition: ConditionScores) -> tuple[int, ...]:
    return tuple(phase.observed_frames for phase in condition.runs[0].phases)


def learning_curves(scores: SequenceScores, theme: Theme = LIGHT) -> list[bytes]:
    """One figure for all conditions whose task switches fall on the same frames; usually that is all of them."""
    together: dict[tuple[int, ...], list[ConditionScores]] = {}
    for condition in scores.conditions:
        if any(phase.rows for run in condition.runs for phase in run.phases):
            together.setdefault(phase_lengths(condition), []).append(condition)
    with drawing(theme):
        return [as_png(_curves(scores, conditions, lengths, theme)) for lengths, conditions in together.items()]


def curve(run: RunResult, task: str) -> dict[int, float]:
    """Observed frames since the beginning of the sequence -> mean score on the task."""
    points, begun = {}, 0
    for phase in run.phases:
        for row in phase.rows:
            if row["task"] == task:
                points[begun + row["observed_frames"]] = float(np.mean(row["scores"]))
        begun += phase.observed_frames
    return points


def over_seeds(runs: Sequence[RunResult], task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, and the mean and standard deviation over the seeds that have come so far."""
    curves = [curve(run, task) for run in runs]
    frames = sorted({frame for points in curves for frame in points})
    values = np.array([[points.get(frame, np.nan) for frame in frames] for points in curves]).reshape(len(curves), -1)
    mean = mean_of_known(values)
    return np.array(frames), mean, np.sqrt(mean_of_known((values - mean) ** 2))


def _curves(
    scores: SequenceScores, conditions: list[ConditionScores], lengths: tuple[int, ...], theme: Theme
) -> Figure:
    count = len(scores.tasks)
    entries = len(conditions) + 2
    across = entries if entries <= 5 else 4
    figure = new_figure(WIDTH, 1.45 * count + 0.75 + 0.22 * math.ceil(entries / across), layout="constrained")
    panels = figure.subplots(count, 1, sharex=True, squeeze=False).ravel()
    for j, axes in enumerate(panels):
        _panel(axes, scores, conditions, j, theme)
        _switches(axes, scores, lengths, j, theme)
    end = sum(lengths)
    unit, size = ("millions", 1e6) if end >= 2e6 else ("thousands", 1e3)
    panels[-1].set_xlabel(f"observed frames ({unit})")
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value / size:g}")
    panels[-1].set_xlim(0, 1.012 * end)  # the last markers stay whole
    handles, labels = panels[0].get_legend_handles_labels()
    figure.align_ylabels(panels)
    figure.legend(handles, labels, loc="outside upper left", ncols=across, fontsize=8.5, handlelength=2.6)
    return figure


def _panel(axes: Axes, scores: SequenceScores, conditions: list[ConditionScores], task: int, theme: Theme) -> None:
    name = scores.tasks[task]
    for condition in conditions:
        style = style_of(condition.name, theme)
        frames, mean, spread = over_seeds(condition.runs, name)
        look = {"color": style.colour, "linestyle": style.line, "marker": style.marker}
        every = max(1, len(frames) // 12)
        axes.plot(frames, mean, label=condition.name, linewidth=1.5, markersize=3.6, markevery=every, **look)
        if len(condition.runs) > 1:
            axes.fill_between(frames, mean - spread, mean + spread, color=style.colour, alpha=0.16, linewidth=0)
    runs = [run for condition in conditions for run in condition.runs]
    _reference(axes, "learnt alone", [run.single[task] for run in runs], "solid", theme)
    _reference(axes, "random play", [run.random[task] for run in runs], (0, (1, 2.5)), theme)
    axes.set_ylabel(scores.titles[task], fontweight="bold")
    axes.tick_params(labelsize=8)
    axes.margins(y=0.12)


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
            place = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": theme.muted}
            axes.text((left + right) / 2, 1.03, f"learning {title}", transform=axes.get_xaxis_transform(), **place)
