"""Dreams: what the generators in a long-term memory make up, beside what the agent really saw."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from reaper.errors import DamagedArtefact
from reaper.report.scores import ConditionScores
from reaper.report.theme import DOTS, LIGHT, Theme, as_png, drawing, new_figure, remove_frame
from reaper.store import Store

Frames = dict[str, np.ndarray]  # label -> (count, size, size), uint8


def read_pictures(store: Store, condition: ConditionScores) -> tuple[int, Frames, Frames]:
    """The first seed that has any dreams, its real frames of each task and its dreamt ones after each task."""
    for run in condition.runs:
        dreamt = {
            f"Dreamt after learning {title}": frames
            for title, digest in zip(run.titles, run.stages["memories"], strict=True)
            if (frames := _last_frames(store, digest, "dreamt")) is not None
        }
        real = {
            f"{title}, real": frames
            for title, digest in zip(run.titles, run.stages["teachers"], strict=True)
            if (frames := _last_frames(store, digest, "real")) is not None
        }
        if dreamt:
            return run.seed, real, dreamt
    return 0, {}, {}


def _last_frames(store: Store, digest: str, name: str) -> np.ndarray | None:
    """The newest frame of every state."""
    if not (store.has(digest) and store.stage(digest).has("pictures.safetensors")):
        return None
    states = store.stage(digest).tensors("pictures").get(name)
    if states is not None and (states.ndim != 4 or states.dtype != torch.uint8 or 0 in states.shape):
        raise DamagedArtefact(store.path_of(digest) / "pictures.safetensors", "holds no pictures")
    return None if states is None else states[:, -1].numpy()


def dreams(
    real: dict[str, np.ndarray], dreamt: dict[str, np.ndarray], theme: Theme = LIGHT, columns: int | None = None
) -> bytes | None:
    """Real frames, a row for each task, above dreamt ones, a block for each memory; label -> (count, size, size)."""
    blocks = [*((label, frames, 1) for label, frames in real.items()), *((k, v, 2) for k, v in dreamt.items())]
    if not blocks:
        return None
    size = blocks[0][1].shape[-1]
    columns = columns or (16 if size <= 32 else 8)
    mosaics = [(label, mosaic(frames, rows, columns)) for label, frames, rows in blocks]
    with drawing(theme):
        return as_png(_stacked(mosaics, columns, size, theme))


def mosaic(frames: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Frames side by side with a pixel between them, NaN where there is no frame: (rows x (size + 1), ...)."""
    size = frames.shape[-1]
    picture = np.full((rows * (size + 1) - 1, columns * (size + 1) - 1), np.nan)
    for place, frame in enumerate(frames[: rows * columns]):
        top, left = (place // columns) * (size + 1), (place % columns) * (size + 1)
        picture[top : top + size, left : left + size] = frame
    return picture


def _stacked(mosaics: list[tuple[str, np.ndarray]], columns: int, size: int, theme: Theme) -> Figure:
    """Mosaics under one another, every pixel of a frame enlarged to the same whole number of pixels."""
    scale = max(1, 1300 // (columns * (size + 1)))
    label, gap = 46, 22
    width = mosaics[0][1].shape[1] * scale
    height = sum(picture.shape[0] * scale + label + gap for _, picture in mosaics)
    figure = new_figure(width / DOTS, height / DOTS)
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
