"""Renders figures for the page, in a light and a dark theme, and for the files alongside it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from matplotlib.figure import Figure

from reaper.report.theme import DARK, LIGHT, Theme, as_pdf, as_png, drawing

Draw = Callable[[Theme], Figure | None]  # None where there is nothing to draw


def data_uri(kind: str, content: bytes) -> str:
    """A file embedded in the page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class RenderedFigure:
    """A figure in both themes, and for print."""

    name: str  # of its files
    caption: str
    light: bytes  # PNG
    dark: bytes  # PNG
    pdf: bytes | None = None

    @property
    def html(self) -> str:
        """On a narrow screen the image scrolls on its own, so that its labels stay legible."""
        light, dark = (data_uri("image/png", png) for png in (self.light, self.dark))
        return (
            '<figure><div class="wide"><picture class="chart">'
            f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            f'<img src="{light}" alt="{escape(self.caption)}"></picture></div>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )

    @property
    def files(self) -> dict[str, bytes]:
        """Name -> content, to be written alongside the page."""
        files = {f"{self.name}.png": self.light}
        return {**files, f"{self.name}.pdf": self.pdf} if self.pdf else files


def render_for_files(name: str, caption: str, draw: Callable[[Theme], Figure]) -> RenderedFigure:
    """A figure that is not on the page and so needs no dark version."""
    with drawing(LIGHT):
        figure = draw(LIGHT)
        png = as_png(figure)
        return RenderedFigure(name, caption, light=png, dark=png, pdf=as_pdf(figure))


def render_figure(name: str, caption: str, draw: Draw) -> list[RenderedFigure]:
    """The figure in a list, or an empty list where there is nothing to draw."""
    with drawing(LIGHT):
        if (figure := draw(LIGHT)) is None:
            return []
        light, pdf = as_png(figure), as_pdf(figure)
    with drawing(DARK):
        figure = draw(DARK)
        return [RenderedFigure(name, caption, light=light, dark=as_png(figure), pdf=pdf)] if figure else []
