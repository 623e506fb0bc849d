"""Plots of vector states, which have no picture: real and generated ones, projected onto two directions."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from reaper.report.generated_states import GeneratedStates
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure

COLUMNS = 3


def principal_directions(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(features,) the mean, and (2, features) the two directions in which the states vary most."""
    mean = states.mean(axis=0)
    _, _, directions = np.linalg.svd(states - mean, full_matrices=False)
    first_two = np.zeros((2, states.shape[1]))
    first_two[: len(directions[:2])] = directions[:2]
    # A direction and its opposite are equally good; its largest number is made positive, so that plots agree.
    largest = np.take_along_axis(first_two, np.abs(first_two).argmax(axis=1)[:, None], axis=1)
    return mean, first_two * np.where(largest < 0, -1, 1)


def projections(found: GeneratedStates, theme: Theme = LIGHT) -> Figure:
    """One panel per task: its real states, and the generated ones that look like it."""
    rows = -(-len(found.titles) // COLUMNS)
    figure = new_figure(WIDTH, 0.35 + 2.1 * rows, layout="constrained")
    panels = figure.subplots(rows, min(COLUMNS, len(found.titles)), squeeze=False).flatten()
    for axes, title, real, generated in zip(panels, found.titles, found.real, found.generated, strict=False):
        mean, directions = principal_directions(real)
        for states, label, colour in ((real, "real", theme.muted), (generated, "generated", theme.colours[0])):
            x, y = (states - mean) @ directions[0], (states - mean) @ directions[1]
            axes.scatter(x, y, s=5, color=colour, alpha=0.6, linewidths=0, label=label)
        axes.set_title(title)
        axes.tick_params(labelsize=7)
    for axes in panels[len(found.titles) :]:
        axes.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=8, markerscale=2)
    return figure
