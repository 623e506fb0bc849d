"""Learning curves over a whole sequence, one panel per task, as in the paper's main figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.paper.results import HUMAN
from reaper.report.scores import ConditionScores, SequenceScores, mean_of_known
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, style_of
from reaper.results.runs import RunResult

ALONE, RANDOM, HUMAN_LEVEL = "learnt alone", "random play", "human (paper)"  # reference levels
Ends = dict[str, tuple[int, float]]  # condition -> agent steps and score at the end of its curve
LABEL_POINTS = 9.5  # height of a label's line
PANEL_LETTERS = 68  # how many letters of a phase's label fit across a panel


def phase_lengths(condition: ConditionScores) -> tuple[int, ...]:
    return tuple(phase.agent_steps for phase in condition.runs[0].phases)


def groups_with_equal_phases(scores: SequenceScores) -> list[list[ConditionScores]]:
    """Groups of conditions that switch tasks at the same agent steps and so share a figure; usually there is one."""
    groups: dict[tuple[int, ...], list[ConditionScores]] = {}
    for condition in scores.conditions:
        if any(phase.rows for run in condition.runs for phase in run.phases):
            groups.setdefault(phase_lengths(condition), []).append(condition)
    return list(groups.values())


def curve(run: RunResult, task: str) -> dict[int, float]:
    """Agent steps since the beginning of the sequence -> mean score on the task."""
    points, steps_before = {}, 0
    for phase in run.phases:
        for row in phase.rows:
            if row["task"] == task:
                points[steps_before + row["agent_steps"]] = float(np.mean(row["scores"]))
        steps_before += phase.agent_steps
    return points


def over_seeds(runs: Sequence[RunResult], task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Agent steps, and the mean and standard deviation over the seeds that have got that far."""
    curves = [curve(run, task) for run in runs]
    steps = sorted({step for points in curves for step in points})
    values = np.array([[points.get(step, np.nan) for step in steps] for points in curves]).reshape(len(curves), -1)
    mean = mean_of_known(values)
    return np.array(steps), mean, np.sqrt(mean_of_known((values - mean) ** 2))


def learning_curves(scores: SequenceScores, conditions: list[ConditionScores], theme: Theme = LIGHT) -> Figure:
    """One panel per task over the whole sequence; labels stand at the curves' ends."""
    count, lengths = len(scores.tasks), phase_lengths(conditions[0])
    panel = max(1.4, 0.3 + LABEL_POINTS / 72 * len(conditions))  # inches: one line per label
    figure = new_figure(WIDTH, (panel + 0.12) * count + 0.75, layout="constrained")
    panels = figure.subplots(count, 1, sharex=True, squeeze=False).ravel()
    end = sum(lengths)
    for j, axes in enumerate(panels):
        ends = _panel(axes, scores, conditions, task=j, theme=theme)
        _task_switches(axes, scores, lengths, task=j, theme=theme)
        axes.set_xlim(0, 1.012 * end)  # room for the last markers
        _label_ends(axes, ends, LABEL_POINTS / 72 / panel, theme)
    unit, size = ("millions", 1e6) if end >= 2e6 else ("thousands", 1e3)
    panels[-1].set_xlabel(f"agent steps ({unit})")
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value / size:g}")
    figure.align_ylabels(panels)
    known = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [name for name in (ALONE, RANDOM, HUMAN_LEVEL) if name in known]
    figure.legend([known[name] for name in names], names, loc="outside upper left", ncols=3, fontsize=8.5)
    return figure


def _panel(axes: Axes, scores: SequenceScores, conditions: list[ConditionScores], *, task: int, theme: Theme) -> Ends:
    """Draws a task's curves and returns where they end."""
    name = scores.tasks[task]
    ends: Ends = {}
    for condition in conditions:
        style = style_of(condition.name, theme)
        steps, mean, spread = over_seeds(condition.runs, name)
        if not len(steps):
            continue
        every = max(1, len(steps) // 12)
        axes.plot(steps, mean, linewidth=1.5, markersize=3.6, markevery=every, **style.plot_args)
        if len(condition.runs) > 1:
            axes.fill_between(steps, mean - spread, mean + spread, color=style.colour, alpha=0.16, linewidth=0)
        ends[condition.name] = (int(steps[-1]), float(mean[-1]))
    runs = [run for condition in conditions for run in condition.runs]
    _reference_line(axes, ALONE, [run.single[task] for run in runs], theme, linestyle="solid")
    _reference_line(axes, RANDOM, [run.random[task] for run in runs], theme, linestyle=(0, (1, 2.5)))
    axes.set_ylabel(scores.titles[task], fontweight="bold")
    axes.tick_params(labelsize=8)
    axes.margins(y=0.12)
    low, high = axes.get_ylim()
    if low <= HUMAN.get(name, math.nan) <= high:  # a level far above the scores would flatten all curves
        _reference_line(axes, HUMAN_LEVEL, [np.array([HUMAN[name]])], theme, linestyle=(0, (5, 2, 1, 2)))
    return ends


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Ascending positions in [0, 1], moved as little as possible to be `gap` apart, within [0, 1] where they fit."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap) if spread else place)
    ceiling = 1.0
    for i in reversed(range(len(spread))):
        spread[i] = min(spread[i], ceiling)
        ceiling = spread[i] - gap
    return spread


def _label_ends(axes: Axes, ends: Ends, gap: float, theme: Theme) -> None:
    """Labels every curve at its end with a sample of its line, so that no legend is needed."""
    (low, high), (_, right) = axes.get_ylim(), axes.get_xlim()
    names = sorted(ends, key=lambda name: (ends[name][1], name))
    levels = [(ends[name][1] - low) / (high - low) for name in names]
    outside: Any = {"transform": axes.transAxes, "clip_on": False}
    for name, level, place in zip(names, levels, spread_out(levels, gap), strict=True):
        style = style_of(name, theme)
        leader: Any = {"color": style.colour, "linewidth": 0.6, **outside}
        if abs(place - level) > 0.01:  # else leave a gap: the sample is not part of the curve
            axes.plot([0.995, 1.03], [level, place], **leader)
        axes.plot([ends[name][0] / right, 0.992], [level, level], linestyle=(0, (1, 3)), **leader)
        sample: Any = {"linewidth": 1.4, "markersize": 3.4, "markevery": [1], **style.plot_args}
        axes.plot([1.035, 1.062, 1.089], [place] * 3, **sample, **outside)
        axes.text(1.099, place, name, fontsize=8, va="center_baseline", **outside)


def _reference_line(axes: Axes, label: str, scores: list[np.ndarray], theme: Theme, *, linestyle: Any) -> None:
    level = float(mean_of_known(np.concatenate(scores)))
    if not math.isnan(level):
        axes.axhline(level, color=theme.muted, linewidth=0.9, linestyle=linestyle, label=label, zorder=1)


def _task_switches(axes: Axes, scores: SequenceScores, lengths: tuple[int, ...], *, task: int, theme: Theme) -> None:
    """A dashed line at each task switch, and a tint over the phase in which this panel's task is trained."""
    borders = np.cumsum([0, *lengths])
    axes.axvspan(borders[task], borders[task + 1], color=theme.faint, alpha=0.55, linewidth=0, zorder=0)
    for border in borders[1:-1]:
        axes.axvline(border, color=theme.muted, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1)
    if task == 0:
        for title, left, right in zip(scores.titles, borders, borders[1:], strict=False):
            if left == right:  # learnt before this run
                continue
            room = PANEL_LETTERS * (right - left) / borders[-1]  # letters above this phase
            shortened = f"{title[: max(2, int(room) - 1)]}."
            label = next((text for text in (f"learning {title}", title) if len(text) <= room), shortened)
            place = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": theme.muted}
            axes.text((left + right) / 2, 1.03, label, transform=axes.get_xaxis_transform(), **place)
