"""Videos for the page: after each task, the agent plays every task it has learnt, which makes forgetting visible."""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from reaper.agent import Agent, load
from reaper.errors import UserError
from reaper.report.cache import ReportCache
from reaper.report.rendering import data_uri
from reaper.report.videos import FRAMES_PER_SECOND, encoder, grey, write_mp4
from reaper.results.runs import RunResult
from reaper.storage.store import Store

FORMAT = 2  # of cached videos; raising it makes them again
SECONDS = 10
WIDTH = 528  # pixels, about, of a whole video
BORDER = 4  # pixels between tiles
BACKGROUND, TEXT, DIM = 24, 235, 130  # grey levels

Rollout = list[tuple[np.ndarray, float]]  # frames, grey or in colour, with the score so far
Rollouts = dict[tuple[int, int], Rollout]  # by row (the task played) and column (the last task learnt)


@dataclass(frozen=True)
class RolloutVideo:
    """A grid of rollouts: one row per task played, one column per task learnt."""

    condition: str
    seed: int
    titles: list[str]
    kind: str  # video/mp4 or image/webp
    content: bytes

    @property
    def file_name(self) -> str:
        return f"{self.condition}.{self.kind.partition('/')[2]}"

    @property
    def html(self) -> str:
        """The video with labels for its rows and columns."""
        source = data_uri(self.kind, self.content)
        about = escape(f"{self.condition} playing each task, after each task")
        if self.kind.startswith("video"):
            video = f'<video src="{source}" aria-label="{about}" autoplay loop muted playsinline controls></video>'
        else:
            video = f'<img src="{source}" alt="{about}">'
        columns = "".join(f"<span>after {escape(title)}</span>" for title in self.titles)
        rows = "".join(f"<b>{escape(title)}</b>" for title in self.titles)
        return (
            f'<figure class="video"><h4>{escape(self.condition)}</h4>'
            f'<div class="screen" style="--count:{len(self.titles)}">'
            f'<div class="columns">{columns}</div><div class="rows">{rows}</div>{video}</div></figure>'
        )


def read_rollout_videos(
    store: Store, runs: Sequence[RunResult], cache: ReportCache, max_bytes: int
) -> tuple[list[RolloutVideo], list[str]]:
    """One video per run, of at most this size, and why some could not be made."""
    videos, remarks = [], []
    for run in runs:
        try:
            video = read_rollout_video(store, run, cache, max_bytes)
        except UserError as error:
            remarks.append(f"No video of {run.name}: {error}.")
        else:
            videos += [video] if video else []
    return videos, remarks


def read_rollout_video(store: Store, run: RunResult, cache: ReportCache, max_bytes: int) -> RolloutVideo | None:
    """The video of a run's agents so far; None where there is none yet."""
    memories = [digest if store.has(digest) else None for digest in run.record.memories]
    if not any(digest and store.stage(digest).has("agent.safetensors") for digest in memories):
        return None
    inputs = {"format": FORMAT, "memories": memories, "encoder": encoder(), "bytes": max_bytes}

    def make() -> dict[str, Any]:
        return {"content": base64.b64encode(_encoded(_images(store, run, memories), max_bytes)).decode()}

    value = cache.get("video", inputs, make)
    kind = "video/mp4" if encoder() else "image/webp"
    with cache.parsing("video"):
        content = base64.b64decode(value["content"])
        return RolloutVideo(run.name, run.seed, list(run.titles), kind=kind, content=content)


# -- drawing


def _rollout(agent: Agent, task: str) -> Rollout:
    return list(islice(agent.play(task, human_view=True), SECONDS * FRAMES_PER_SECOND))


def _images(store: Store, run: RunResult, memories: Sequence[str | None]) -> list[Image.Image]:
    rollouts: Rollouts = {}
    for column, digest in enumerate(memories):
        if digest:
            agent = load(store.path_of(digest))
            rollouts |= {(row, column): _rollout(agent, task) for row, task in enumerate(run.tasks[: column + 1])}
    grid = _Grid(run, rollouts)
    return [grid.image(step, memories) for step in range(max(map(len, rollouts.values())))]


class _Grid:
    """Draws all rollouts at one step; a finished episode keeps its last frame, darkened."""

    def __init__(self, run: RunResult, rollouts: Rollouts) -> None:
        self.rollouts, self.count = rollouts, len(run.tasks)
        frames = [rollout[0][0] for rollout in rollouts.values()]
        self.side = WIDTH // self.count
        if sizes := [frame.shape[0] for frame in frames if frame.ndim == 2]:
            self.side = max(sizes) * max(1, self.side // max(sizes))  # a whole multiple keeps pixels sharp
        self.letters = min(24, max(12, self.side // 7))
        self.mode = "RGB" if any(frame.ndim == 3 for frame in frames) else "L"
        self.font = ImageFont.load_default(self.letters)

    def image(self, step: int, memories: Sequence[str | None]) -> Image.Image:
        wide, high = self.side + BORDER, self.side + self.letters + 2 * BORDER
        size = (wide * self.count // 2 * 2, high * self.count // 2 * 2)  # H.264 needs even sides
        image = Image.new(self.mode, size, grey(BACKGROUND, self.mode))
        for row in range(self.count):
            for column, digest in enumerate(memories):
                corner = column * wide + BORDER // 2, row * high + BORDER // 2
                if rollout := self.rollouts.get((row, column)):
                    self._draw_frame(image, corner, rollout, step)
                else:
                    text = "not learnt yet" if digest or row > column else "not finished"
                    centre = corner[0] + self.side // 2, corner[1] + self.side // 2
                    ImageDraw.Draw(image).text(centre, text, fill=grey(DIM, self.mode), font=self.font, anchor="mm")
        return image

    def _draw_frame(self, image: Image.Image, corner: tuple[int, int], rollout: Rollout, step: int) -> None:
        frame, score = rollout[min(step, len(rollout) - 1)]
        over = step >= len(rollout)
        resampling = Image.Resampling.NEAREST if frame.ndim == 2 else Image.Resampling.BOX
        tile = Image.fromarray(frame).convert(self.mode).resize((self.side, self.side), resampling)
        image.paste(ImageEnhance.Brightness(tile).enhance(0.5) if over else tile, corner)
        text, below = f"{score:g}, over" if over else f"{score:g}", (corner[0] + 2, corner[1] + self.side + 2)
        ImageDraw.Draw(image).text(below, text, fill=grey(DIM if over else TEXT, self.mode), font=self.font)


# -- encoding


def _encoded(images: list[Image.Image], max_bytes: int) -> bytes:
    """MP4 where ffmpeg is installed, else an animated WebP; halved in length until it is small enough."""
    while True:
        content = _mp4(images) if encoder() else _webp(images)
        if len(content) <= max_bytes or len(images) < 2 * FRAMES_PER_SECOND:
            return content
        images = images[: len(images) // 2]


def _mp4(images: list[Image.Image]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        write_mp4(path, images)
        return path.read_bytes()


def _webp(images: list[Image.Image]) -> bytes:
    buffer = io.BytesIO()
    options = {"save_all": True, "append_images": images[1:], "duration": 1000 // FRAMES_PER_SECOND, "loop": 0}
    images[0].save(buffer, format="WEBP", quality=60, method=1, **options)
    return buffer.getvalue()
