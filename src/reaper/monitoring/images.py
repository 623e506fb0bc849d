"""Images for TensorBoard and wandb: a mosaic of states, and a score matrix as a heat map."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from reaper.tasks.observation import ObservationSpec, pictures

CELL, MARGIN, HEADER = 72, 110, 30  # pixels
LOW, HIGH, UNKNOWN = np.array([253, 246, 227]), np.array([0, 90, 140]), (225, 225, 225)


def as_png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, format="PNG")
    return data.getvalue()


def mosaic(states: np.ndarray, observation: ObservationSpec, count: int = 32, columns: int = 8) -> Image.Image:
    """The newest frame of each of the first `count` states (N, *observation.shape) uint8."""
    frames = pictures(states[:count], observation.frame.shape[0], observation.identity)[:, -1]
    size, rows = frames.shape[2], math.ceil(len(frames) / columns)
    canvas = np.full((rows * (size + 1) - 1, columns * (size + 1) - 1, *frames.shape[3:]), 128, np.uint8)
    for index, frame in enumerate(frames):
        top, left = (index // columns) * (size + 1), (index % columns) * (size + 1)
        canvas[top : top + size, left : left + size] = frame
    scale = max(1, 480 // canvas.shape[1])
    image = Image.fromarray(canvas)
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST).convert("RGB")


def matrix_image(matrix: np.ndarray, titles: Sequence[str]) -> Image.Image:
    """Normalised scores: one row per task learnt, one column per task played. 0 is random play, 1 the task's own DQN;
    unknown cells are grey."""
    width, height = MARGIN + CELL * len(titles), HEADER + CELL * len(matrix)
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default()
    for j, title in enumerate(titles):
        draw.text((MARGIN + CELL * j + CELL / 2, HEADER / 2), _shorten(title, 11), "black", font, anchor="mm")
    for k, row in enumerate(matrix):
        middle = HEADER + CELL * k + CELL / 2
        draw.text((6, middle), _shorten(f"after {titles[k]}", 17), "black", font, anchor="lm")
        for j, value in enumerate(row):
            left, top = MARGIN + CELL * j, HEADER + CELL * k
            draw.rectangle((left, top, left + CELL - 2, top + CELL - 2), _colour(value))
            text_colour = "white" if value > 0.55 else "black"
            text = "" if math.isnan(value) else f"{value:.2f}"
            draw.text((left + CELL / 2, middle), text, text_colour, font, anchor="mm")
    return image


def _colour(value: float) -> tuple[int, ...]:
    if math.isnan(value):
        return UNKNOWN
    share = min(max(value, 0.0), 1.0)
    return tuple(int(channel) for channel in LOW + share * (HIGH - LOW))


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
