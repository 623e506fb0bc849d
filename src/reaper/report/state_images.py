"""Dreams to look at: real and generated states side by side, moving in the page and standing still in the files."""

from __future__ import annotations

import io
from html import escape

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from reaper.report.generated_states import SHOWN, GeneratedStates
from reaper.report.rendering import data_uri
from reaper.report.score_tables import TextTable
from reaper.report.theme import DPI, LIGHT, Theme, new_figure, remove_frame

PAUSE = 350  # milliseconds a frame of a state is shown
SHARP = 42  # frames of at most so many pixels are always enlarged, and keep their edges


def share_table(dreams: GeneratedStates) -> TextTable:
    """Whose states the generators dream of."""
    rows = [
        (f"after {stage}", *(f"{share * 100:.0f} %" for share in shares))
        for stage, shares in zip(dreams.stages, dreams.shares, strict=True)
    ]
    notes = [
        "Each dream counts for the task it looks most like, by a linear classifier that is right on "
        f"{dreams.accuracy * 100:.1f} % of real states it was not trained on."
    ]
    title = f"Share of each task among the dreams of {dreams.condition}"
    return TextTable(title, ("generator", *dreams.titles), rows, notes, f"dreams-{dreams.condition}")


def caption(dreams: GeneratedStates) -> str:
    parts = [
        f"What {dreams.condition} remembers by (seed {dreams.seed}): states that its last generator makes up stand in "
        "for experience that was thrown away. The frames of a state play in a loop. Dreams need not look right: "
        "rehearsing them only has to keep the old answers in place.",
        "Were a dream a copy, it would equal the real state under it. The median dream differs from its nearest real "
        f"state by {dreams.distance:.1f} of 255 grey levels (root mean square), a real state of another game by "
        f"{dreams.real_distance:.1f}.",
    ]
    return " ".join([*parts, *dreams.remarks])


def animation(states: np.ndarray) -> bytes:
    """States side by side at their own size, all their frames in a loop: an animated PNG, exact and smallest."""
    pictures = [_strip(states[:, place]) for place in range(states.shape[1])]
    buffer = io.BytesIO()
    options = {"save_all": True, "append_images": pictures[1:], "duration": PAUSE, "loop": 0, "optimize": True}
    pictures[0].save(buffer, format="PNG", **options)
    return buffer.getvalue()


def _strip(frames: np.ndarray) -> Image.Image:
    """Frames side by side; what lies between them is see-through, since the page may be light or dark."""
    picture = mosaic(frames, 1, len(frames), gap=max(1, frames.shape[-1] // 28))
    shades = np.stack([np.nan_to_num(picture), np.where(np.isnan(picture), 0, 255)], axis=-1)
    return Image.fromarray(shades.astype(np.uint8), mode="LA")


def mosaic(frames: np.ndarray, rows: int, columns: int, gap: int = 1) -> np.ndarray:
    """Frames side by side with a gap between them, NaN where there is no frame: (rows x (size + gap) - gap, ...)."""
    size = frames.shape[-1]
    step = size + gap
    picture = np.full((rows * step - gap, columns * step - gap), np.nan)
    for place, frame in enumerate(frames[: rows * columns]):
        top, left = (place // columns) * step, (place % columns) * step
        picture[top : top + size, left : left + size] = frame
    return picture


def for_page(dreams: GeneratedStates) -> str:
    """A row a task, real states and dreams; then the dreams closest to a real state above those states."""
    rows = [_row("", "<span>real</span>", "<span>dreamt</span>")]
    for title, real, dreamt in zip(dreams.titles, dreams.real, dreams.dreamt, strict=True):
        rows.append(_row(title, _image(real, f"{title}, real"), _image(dreamt, f"{title}, dreamt")))
    pairs = (("Closest dreams", dreams.closest), ("Nearest real", dreams.neighbours))
    close = "".join(f'<div class="pair"><b>{name}</b>{_image(states, name)}</div>' for name, states in pairs)
    about = f"<figcaption>{escape(caption(dreams))}</figcaption>"
    return f'<figure class="dreams">{"".join(rows)}<div class="pairs">{close}</div>{about}</figure>'


def _row(title: str, left: str, right: str) -> str:
    return f'<div class="states"><b>{escape(title)}</b>{left}{right}</div>'


def _image(states: np.ndarray, text: str) -> str:
    if not len(states):
        return '<span class="note">none</span>'
    width = f"width:{100 * len(states) / SHOWN:g}%"  # a few are not larger than many
    look = ' class="pixels"' if states.shape[-1] <= SHARP else ""
    source = data_uri("image/png", animation(states))
    return f'<span><img{look} style="{width}" src="{source}" alt="{escape(text)}"></span>'


def still(dreams: GeneratedStates, theme: Theme = LIGHT) -> Figure:
    """The same without motion: the newest frame of every state."""
    strips = []
    for title, real, dreamt in zip(dreams.titles, dreams.real, dreams.dreamt, strict=True):
        strips += [(f"{title}, real", real), (f"{title}, dreamt", dreamt)]
    strips += [("Dreams closest to a real state", dreams.closest), ("and those real states", dreams.neighbours)]
    columns = max(len(states) for _, states in strips)
    mosaics = [(label, mosaic(states[:, -1], 1, columns)) for label, states in strips if len(states)]
    return _stacked(mosaics, theme)


def _stacked(mosaics: list[tuple[str, np.ndarray]], theme: Theme) -> Figure:
    """Mosaics under one another, every pixel of a frame enlarged to the same whole number of pixels."""
    columns = mosaics[0][1].shape[1]
    scale = max(1, 1300 // columns)
    label, gap = 46, 22
    width = columns * scale
    height = sum(picture.shape[0] * scale + label + gap for _, picture in mosaics)
    figure = new_figure(width / DPI, height / DPI)
    colours = mpl.colormaps["gray"].with_extremes(bad=theme.ground)
    top = height
    for text, picture in mosaics:
        top -= label
        figure.text(0, (top + 10) / height, text, fontsize=9.5)
        top -= picture.shape[0] * scale
        axes = figure.add_axes((0, top / height, 1, picture.shape[0] * scale / height))
        axes.imshow(picture, cmap=colours, vmin=0, vmax=255, interpolation="nearest", aspect="auto")
        remove_frame(axes)
        top -= gap
    return figure
