"""The paper's claims as a picture: what the paper has, and our differences with their intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reaper.report.reproduction.claims import (
    ABOVE,
    CLAIMS,
    CLOSE,
    CONFIRMED,
    REFUTED,
    Claim,
    differences,
    judged,
    paper_difference,
)
from reaper.report.reproduction.evidence import Group
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure
from reaper.results.metrics import t_interval

ALT = "RePR minus each rival: the paper, and our runs with 95 % intervals"
_LOWEST, _HIGHEST = -0.5, 1.0  # intervals are clipped to these differences
_EDGE = 0.03  # beyond which the axis ends
_ROW = 0.52  # inches per claim, at least
_MARKERS = "os^Dv<>p"


def claims_figure(groups: Sequence[Group], theme: Theme = LIGHT) -> Figure | None:
    """One row per claim and one marker per group; None where nothing was measured."""
    measured = judged(groups)
    if not measured:
        return None
    height = len(CLAIMS) * max(_ROW, 0.13 * (len(measured) + 2)) + 1.1
    figure = new_figure(WIDTH, height, layout="constrained")
    axes = figure.subplots()
    for place, claim in enumerate(CLAIMS):
        _row(axes, place, claim, measured, theme)
    axes.set_yticks(range(len(CLAIMS)), [_wording(claim) for claim in CLAIMS], color=theme.text)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(CLAIMS) - 0.5, -0.5)
    axes.set_xlim(_LOWEST - _EDGE, _HIGHEST + _EDGE)
    axes.axvline(0, color=theme.muted, linewidth=0.8, zorder=0)
    axes.set_xlabel("RePR minus the other condition (0: the same, 1: from random play to a DQN per task)", fontsize=8)
    axes.spines["left"].set_visible(False)
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside upper left", ncols=3, fontsize=8)
    return figure


def _row(axes: Axes, place: int, claim: Claim, groups: Sequence[Group], theme: Theme) -> None:
    """An interval in the shaded part confirms the claim."""
    rows = [place - 0.42, place + 0.42]
    axes.fill_betweenx(rows, claim.bound, _HIGHEST + _EDGE, color=theme.faint, linewidth=0, zorder=0)
    offsets = np.linspace(-0.3, 0.3, len(groups) + 1)
    axes.plot(
        paper_difference(claim), place + offsets[0], "*", color=theme.text, markersize=8, linestyle="", label="paper"
    )
    for number, group in enumerate(groups):
        values = list(differences(group, claim.other).values())
        if values:
            _mark(axes, place + offsets[number + 1], claim, values, number, group.name, theme)


def _mark(axes: Axes, height: float, claim: Claim, values: list[float], number: int, name: str, theme: Theme) -> None:
    """Filled where the claim is settled, hollow where it is open."""
    colour, verdict = theme.colours[number % len(theme.colours)], claim.verdict(values)
    low, high = np.clip(t_interval(values), _LOWEST, _HIGHEST)
    if len(values) > 1:
        axes.plot([low, high], [height, height], color=colour, linewidth=1.6)
    filled = colour if verdict in (CONFIRMED, REFUTED) else theme.background
    axes.plot(
        np.clip(np.mean(values), _LOWEST, _HIGHEST),
        height,
        _MARKERS[number % len(_MARKERS)],
        color=colour,
        markerfacecolor=filled,
        markersize=5.5,
        linestyle="",
        label=name,
    )


def _wording(claim: Claim) -> str:
    relation = {CLOSE: "close to", ABOVE: "above"}.get(claim.bound, "far above")
    return f"{relation} {claim.other}"
