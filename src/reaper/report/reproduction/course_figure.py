"""What is left of all tasks learnt so far, after each task: the paper's main figure in one number per point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.report.curves import spread_out
from reaper.report.reproduction.evidence import OURS, Group, having, mean_of, unreplaced
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, style_of
from reaper.study.conditions import MAIN

ALT = "The average over the tasks learnt so far, after each task, for every condition"
_PANEL = 2.6  # inches
_LINE = 0.125  # inches of a label's line
_LOWEST = -0.1


def average_so_far(group: Group, condition: str, num_tasks: int) -> float:
    """The mean normalised score over the first `num_tasks` tasks, right after the last of them was learnt."""
    return float(np.mean([mean_of(group.task_levels(condition, task, num_tasks)) for task in group.tasks[:num_tasks]]))


def course_figure(groups: Sequence[Group], theme: Theme = LIGHT) -> Figure | None:
    """One panel per group of runs with two of these conditions or more; None where there is none."""
    found = [group for group in unreplaced(having(groups, MAIN)) if len(_learnt(group)) > 1]
    if not found:
        return None
    across = 2
    down = math.ceil(len(found) / across)
    figure = new_figure(WIDTH, _PANEL * down + 0.2, layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for axes, group in zip(panels, found, strict=False):
        _panel(axes, group, theme)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return figure


def _learnt(group: Group) -> list[str]:
    return [name for name in (*MAIN, *OURS) if group.after(name)]


def _panel(axes: Axes, group: Group, theme: Theme) -> None:
    after = range(1, len(group.tasks) + 1)
    ends = {}
    axes.axhline(1, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.axhline(0, color=theme.muted, linewidth=0.8, linestyle=(0, (1, 2.5)), zorder=0)
    for name in _learnt(group):
        averages = [average_so_far(group, name, k) for k in after]
        axes.plot(after, averages, linewidth=1.4, markersize=3.6, **style_of(name, theme).plot_args)
        ends[name] = averages[-1]
    axes.set_title(group.name, color=theme.text, fontsize=9)
    axes.set_xticks(after)
    axes.set_xlabel("tasks learnt", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_ylim(_LOWEST, 1.15)
    _label_ends(axes, ends, theme)


def _label_ends(axes: Axes, ends: dict[str, float], theme: Theme) -> None:
    """The names in the order of the curves' ends, apart enough to be read."""
    low, high = axes.get_ylim()
    names = sorted(ends, key=lambda name: ends[name])
    levels = [(ends[name] - low) / (high - low) for name in names]
    outside: Any = {"transform": axes.transAxes, "clip_on": False}
    for name, level, place in zip(names, levels, spread_out(levels, _LINE / (_PANEL - 0.7)), strict=True):
        colour = style_of(name, theme).colour
        axes.plot([0.97, 1.03], [level, place], color=colour, linewidth=0.6, **outside)
        axes.text(1.04, place, name, fontsize=7.5, color=colour, va="center_baseline", **outside)
