"""The look of figures: light and dark, safe for colour-blind readers; line style and marker tell curves apart, too."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reaper.report.condition_order import rank_of
from reaper.study.conditions import CONDITIONS, MAIN

WIDTH = 6.2  # inches; so that 8 point text stays legible on a phone
DPI = 200


@dataclass(frozen=True)
class Theme:
    """The colours of a page and its figures."""

    background: str
    text: str
    muted: str
    faint: str
    colours: tuple[str, ...]


# After the palette of Okabe and Ito, in an order that puts the first three conditions furthest apart. The rest were
# moved until all ten differ for every kind of colour-blind reader (tests/unit/report/test_theme.py).
LIGHT = Theme(
    background="#ffffff", text="#22262b", muted="#6a727c", faint="#e6e8eb",
    colours=(
        "#d55e00", "#009e73", "#0072b2", "#cc9cc0", "#e49c00",
        "#84a8f0", "#48246c", "#540024", "#6c6030", "#48546c",
    ),
)  # fmt: skip
DARK = Theme(
    background="#1b1e22", text="#e3e6ea", muted="#9aa3ad", faint="#33383e",
    colours=(
        "#f2854a", "#35c79b", "#58abe8", "#d8c0f0", "#fcb418",
        "#c0d8d8", "#9c60a8", "#9c4860", "#f0d884", "#849ca8",
    ),
)  # fmt: skip

_LINES: tuple[Any, ...] = ((0, (5, 2)), (0, (1, 1.2)), "solid", (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("v", "s", "o", "^", "D", "P", "X", "<", ">", "p", "*")


@dataclass(frozen=True)
class Style:
    """The look of one condition, the same in every figure."""

    colour: str
    line: Any
    marker: str

    @property
    def plot_args(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker}


def style_of(condition: str, theme: Theme) -> Style:
    """By position in the table of conditions; no two of the paper's main table share a colour, or a line and marker."""
    place, name = rank_of(condition)
    if place == len(CONDITIONS):
        place += sum(name.encode())
    colour = place if place < len(MAIN) else place - len(MAIN)
    return Style(
        theme.colours[colour % len(theme.colours)], _LINES[place % len(_LINES)], _MARKERS[place % len(_MARKERS)]
    )


@contextmanager
def drawing(theme: Theme) -> Iterator[None]:
    """Matplotlib settings while a figure is drawn; the caller's own are restored afterwards."""
    settings: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "text.color": theme.text,
        "axes.labelcolor": theme.text,
        "axes.edgecolor": theme.muted,
        "axes.facecolor": theme.background,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "figure.facecolor": theme.background,
        "legend.frameon": False,
        "pdf.fonttype": 42,  # text in a PDF stays text
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


def new_figure(width: float, height: float, **options: Any) -> Figure:
    """A figure that pyplot does not manage, so that nothing has to be closed."""
    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def as_png(figure: Figure) -> bytes:
    """Without the software's name, so that the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor=figure.get_facecolor(), metadata={"Software": None})
    return buffer.getvalue()


def as_pdf(figure: Figure) -> bytes:
    """For print; without the date, so that the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata: Any = {"CreationDate": None, "Creator": None, "Producer": None}
    figure.savefig(buffer, format="pdf", facecolor=figure.get_facecolor(), metadata=metadata)
    return buffer.getvalue()


def remove_frame(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
