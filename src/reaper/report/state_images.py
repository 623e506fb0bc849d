"""Images of real and generated states: animated on the page, still in the files alongside it; plots of vectors."""

from __future__ import annotations

import io
from html import escape

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from reaper.report.generated_states import SHOWN, GeneratedStates
from reaper.report.rendering import data_uri, render_figure
from reaper.report.state_plots import projections
from reaper.report.text_table import TextTable
from reaper.report.theme import DPI, LIGHT, Theme, new_figure, remove_frame

FRAME_MILLISECONDS = 350  # how long the animation shows each frame of a state
PIXELATED = 42  # frames up to this size are enlarged without smoothing


def still_caption(found: GeneratedStates) -> str:
    if found.are_vectors:
        return caption(found)
    return f"Real and generated states of {found.condition} (seed {found.seed}): the newest frame of each."


def share_table(found: GeneratedStates) -> TextTable:
    """Which tasks each generator's states look like."""
    rows = [
        (f"after {stage}", *(f"{share * 100:.0f} %" for share in shares))
        for stage, shares in zip(found.stages, found.shares, strict=True)
    ]
    notes = [
        "Each generated state counts for the task it looks most like, as judged by a linear classifier that is correct "
        f"on {found.accuracy * 100:.1f} % of held-out real states."
    ]
    title = f"Share of each task among the generated states of {found.condition}"
    return TextTable(title, ("generator", *found.titles), rows, notes, name=f"generated-states-{found.condition}")


def caption(found: GeneratedStates) -> str:
    if found.are_vectors:
        return " ".join([_vector_caption(found), *found.remarks])
    parts = [
        f"What the network dreams of: states from the last generator of {found.condition} (seed {found.seed}) replace "
        "the experience of earlier tasks, which was not stored. The frames of a state play in a loop. Generated states "
        "need not look right: rehearsing them only has to preserve the network's outputs for the earlier tasks.",
        "A copied state would equal the real state below it. The median generated state differs from its nearest real "
        f"state by {found.distance:.1f} of 255 grey levels (root mean square); a real state of another episode by "
        f"{found.real_distance:.1f}.",
    ]
    return " ".join([*parts, *found.remarks])


def _vector_caption(found: GeneratedStates) -> str:
    return (
        f"States from the last generator of {found.condition} (seed {found.seed}), which replace the experience of "
        "earlier tasks, on top of real states of each task, in the two directions in which those vary most. The "
        f"median generated state differs from its nearest real state by {found.distance:.2f} (root mean square of the "
        f"scaled numbers); a real state of another episode by {found.real_distance:.2f}."
    )


def animation(states: np.ndarray) -> bytes:
    """States side by side in their original size, their frames in a loop: an animated PNG, which is lossless."""
    images = [_strip(states[:, place]) for place in range(states.shape[1])]
    buffer = io.BytesIO()
    options = {"save_all": True, "append_images": images[1:], "duration": FRAME_MILLISECONDS, "loop": 0}
    images[0].save(buffer, format="PNG", optimize=True, **options)
    return buffer.getvalue()


def _strip(frames: np.ndarray) -> Image.Image:
    """Frames side by side with transparent gaps, since the page may be light or dark."""
    pixels = mosaic(frames, 1, len(frames), gap=max(1, frames.shape[2] // 28))
    channels = pixels if pixels.ndim == 3 else pixels[..., None]
    alpha = np.where(np.isnan(channels[..., :1]), 0, 255)
    with_alpha = np.concatenate([np.nan_to_num(channels), alpha], axis=-1)
    return Image.fromarray(with_alpha.astype(np.uint8), mode="RGBA" if pixels.ndim == 3 else "LA")


def mosaic(frames: np.ndarray, rows: int, columns: int, gap: int = 1) -> np.ndarray:
    """Frames (count, height, width[, 3]) row by row with gaps between them; NaN where there is no frame."""
    height, width, *colours = frames.shape[1:]
    pixels = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, *colours), np.nan)
    for place, frame in enumerate(frames[: rows * columns]):
        top, left = (place // columns) * (height + gap), (place % columns) * (width + gap)
        pixels[top : top + height, left : left + width] = frame
    return pixels


def html_states(found: GeneratedStates) -> str:
    """One row per task, real and generated; then the generated states closest to a real one, above those. Vectors are
    plotted."""
    if found.are_vectors:
        (figure,) = render_figure("generated", caption(found), lambda theme: projections(found, theme))
        return figure.html
    rows = [_html_row("", "<span>real</span>", "<span>generated</span>")]
    for title, real, generated in zip(found.titles, found.real, found.generated, strict=True):
        images = _html_image(real, f"{title}, real"), _html_image(generated, f"{title}, generated")
        rows.append(_html_row(title, *images))
    pairs = (("Closest generated", found.closest), ("Nearest real", found.neighbours))
    close = "".join(f'<div class="pair"><b>{name}</b>{_html_image(states, name)}</div>' for name, states in pairs)
    about = f"<figcaption>{escape(caption(found))}</figcaption>"
    return f'<figure class="generated">{"".join(rows)}<div class="pairs">{close}</div>{about}</figure>'


def _html_row(title: str, left: str, right: str) -> str:
    return f'<div class="states"><b>{escape(title)}</b>{left}{right}</div>'


def _html_image(states: np.ndarray, text: str) -> str:
    if not len(states):
        return '<span class="note">none</span>'
    width = f"width:{100 * len(states) / SHOWN:g}%"  # all states have the same size on the page
    look = ' class="pixels"' if states.shape[3] <= PIXELATED else ""
    source = data_uri("image/png", animation(states))
    return f'<span><img{look} style="{width}" src="{source}" alt="{escape(text)}"></span>'


def still(found: GeneratedStates, theme: Theme = LIGHT) -> Figure:
    """The newest frame of every state; vectors are plotted."""
    if found.are_vectors:
        return projections(found, theme)
    strips = []
    for title, real, generated in zip(found.titles, found.real, found.generated, strict=True):
        strips += [(f"{title}, real", real), (f"{title}, generated", generated)]
    strips += [("Generated states closest to a real one", found.closest), ("Those real states", found.neighbours)]
    columns = max(len(states) for _, states in strips)
    mosaics = [(label, mosaic(states[:, -1], 1, columns)) for label, states in strips if len(states)]
    return _stacked(mosaics, theme)


def _stacked(mosaics: list[tuple[str, np.ndarray]], theme: Theme) -> Figure:
    """Mosaics below one another, all pixels enlarged by the same whole number."""
    columns = mosaics[0][1].shape[1]
    scale = max(1, 1300 // columns)
    label, gap = 46, 22
    width = columns * scale
    height = sum(pixels.shape[0] * scale + label + gap for _, pixels in mosaics)
    figure = new_figure(width / DPI, height / DPI)
    colours = mpl.colormaps["gray"].with_extremes(bad=theme.background)
    top = height
    for text, pixels in mosaics:
        top -= label
        figure.text(0, (top + 10) / height, text, fontsize=9.5)
        top -= pixels.shape[0] * scale
        axes = figure.add_axes((0, top / height, 1, pixels.shape[0] * scale / height))
        axes.imshow(_shown(pixels, theme), cmap=colours, vmin=0, vmax=255, interpolation="nearest", aspect="auto")
        remove_frame(axes)
        top -= gap
    return figure


def _shown(pixels: np.ndarray, theme: Theme) -> np.ndarray:
    """Colours from 0 to 1, gaps in the background's; matplotlib colours grey pixels itself."""
    if pixels.ndim == 2:
        return pixels
    return np.where(np.isnan(pixels), to_rgb(theme.background), pixels / 255)
