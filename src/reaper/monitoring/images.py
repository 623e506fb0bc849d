"""Pictures for those who look on: states side by side, and a score matrix in colours."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

CELL, MARGIN, HEAD = 72, 110, 30  # pixels
LOW, HIGH, EMPTY = np.array([253, 246, 227]), np.array([0, 90, 140]), (225, 225, 225)


def as_png(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, format="PNG")
    return data.getvalue()


def mosaic(states: np.ndarray, count: int = 32, columns: int = 8) -> Image.Image:
    """The newest frame of each of the first `count` states; (N, history, size, size) uint8."""
    frames = states[:count, -1]
    size, rows = frames.shape[-1], math.ceil(len(frames) / columns)
    canvas = np.full((rows * (size + 1) - 1, columns * (size + 1) - 1), 128, np.uint8)
    for place, frame in enumerate(frames):
        top, left = (place // columns) * (size + 1), (place % columns) * (size + 1)
        canvas[top : top + size, left : left + size] = frame
    scale = max(1, 480 // canvas.shape[1])
    picture = Image.fromarray(canvas)
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST).convert("RGB")


def matrix_picture(matrix: np.ndarray, titles: Sequence[str]) -> Image.Image:
    """Normalised scores: a row for each task learnt, a column for each task played. 0 is random play, 1 the task's own
    DQN; cells that are not known yet are grey."""
    width, height = MARGIN + CELL * len(titles), HEAD + CELL * len(matrix)
    picture = Image.new("RGB", (width, height), "white")
    drawing, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for j, title in enumerate(titles):
        drawing.text((MARGIN + CELL * j + CELL / 2, HEAD / 2), _short(title, 11), "black", font, anchor="mm")
    for k, row in enumerate(matrix):
        middle = HEAD + CELL * k + CELL / 2
        drawing.text((6, middle), _short(f"after {titles[k]}", 17), "black", font, anchor="lm")
        for j, value in enumerate(row):
            left, top = MARGIN + CELL * j, HEAD + CELL * k
            drawing.rectangle((left, top, left + CELL - 2, top + CELL - 2), _colour(value))
            ink = "white" if value > 0.55 else "black"
            text = "" if math.isnan(value) else f"{value:.2f}"
            drawing.text((left + CELL / 2, middle), text, ink, font, anchor="mm")
    return picture


def _colour(value: float) -> tuple[int, ...]:
    if math.isnan(value):
        return EMPTY
    share = min(max(value, 0.0), 1.0)
    return tuple(int(part) for part in LOW + share * (HIGH - LOW))


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
