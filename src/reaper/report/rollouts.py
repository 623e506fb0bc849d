"""Films for the page: an agent after each of its tasks plays all it knows, so that forgetting can be watched."""

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

FORMAT = 2  # of what is kept; another one makes it anew
SECONDS = 10
WIDE = 528  # pixels, about, for all columns of a film
BORDER = 4
GROUND, INK, DIM = 24, 235, 130

Clip = list[tuple[np.ndarray, float]]  # frames, grey or in colour, and the score so far


@dataclass(frozen=True)
class RolloutVideo:
    """A grid of games: a row a task, a column a stage."""

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
        """The film with its rows and columns named around it."""
        count, source = len(self.titles), data_uri(self.kind, self.content)
        about = escape(f"{self.condition} playing each task, after each task")
        if self.kind.startswith("video"):
            picture = f'<video src="{source}" aria-label="{about}" autoplay loop muted playsinline controls></video>'
        else:
            picture = f'<img src="{source}" alt="{about}">'
        after = "".join(f"<span>after {escape(title)}</span>" for title in self.titles)
        on = "".join(f"<b>{escape(title)}</b>" for title in self.titles)
        style = f"--count:{count}"
        return (
            f'<figure class="film"><h4>{escape(self.condition)}</h4><div class="screen" style="{style}">'
            f'<div class="after">{after}</div><div class="on">{on}</div>{picture}</div></figure>'
        )


def read_rollout_video(store: Store, run: RunResult, kept: ReportCache, most_bytes: int) -> RolloutVideo | None:
    """The film of a run, as far as it has come; None where it has no agent yet."""
    memories = [digest if store.has(digest) else None for digest in run.record.memories]
    ready = [digest for digest in memories if digest and store.stage(digest).has("agent.safetensors")]
    if not ready:
        return None
    inputs = {"format": FORMAT, "memories": memories, "encoder": encoder(), "bytes": most_bytes}

    def make() -> dict[str, Any]:
        return {"content": base64.b64encode(_encoded(_frames(store, run, memories), most_bytes)).decode()}

    value = kept.get("film", inputs, make)
    kind = "video/mp4" if encoder() else "image/webp"
    with kept.read("film"):
        return RolloutVideo(run.name, run.seed, list(run.titles), kind, base64.b64decode(value["content"]))


def _clip(agent: Agent, task: str) -> Clip:
    return list(islice(agent.play(task, for_people=True), SECONDS * FRAMES_PER_SECOND))


def _frames(store: Store, run: RunResult, memories: Sequence[str | None]) -> list[Image.Image]:
    """All moments of the grid; a game that is over stays as it ended."""
    clips: dict[tuple[int, int], Clip] = {}
    for stage, digest in enumerate(memories):
        if digest:
            agent = load(store.path_of(digest))
            clips |= {(place, stage): _clip(agent, task) for place, task in enumerate(run.tasks[: stage + 1])}
    moments = max(map(len, clips.values()))
    return [_moment(run, memories, clips, moment) for moment in range(moments)]


def _moment(run: RunResult, memories: Sequence[str | None], clips: dict, moment: int) -> Image.Image:
    count, size = len(run.tasks), run.settings.observation.frame_size
    side = size * max(1, WIDE // count // size)
    letters = min(24, max(12, side // 7))
    wide, high = side + BORDER, side + letters + 2 * BORDER
    mode = "RGB" if any(clip[0][0].ndim == 3 for clip in clips.values()) else "L"
    sides = (wide * count // 2 * 2, high * count // 2 * 2)  # video needs even ones
    picture = Image.new(mode, sides, grey(GROUND, mode))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(letters)
    for place in range(count):
        for stage, digest in enumerate(memories):
            left, top = stage * wide + BORDER // 2, place * high + BORDER // 2
            clip = clips.get((place, stage))
            if clip is None:
                text = "not learnt yet" if digest or place > stage else "not finished"
                draw.text((left + side // 2, top + side // 2), text, fill=grey(DIM, mode), font=font, anchor="mm")
                continue
            frame, score = clip[min(moment, len(clip) - 1)]
            over = moment >= len(clip)
            how = Image.Resampling.NEAREST if frame.ndim == 2 else Image.Resampling.BOX
            tile = Image.fromarray(frame).convert(mode).resize((side, side), how)
            picture.paste(ImageEnhance.Brightness(tile).enhance(0.5) if over else tile, (left, top))
            words = f"{score:g}, over" if over else f"{score:g}"
            draw.text((left + 2, top + side + 2), words, fill=grey(DIM if over else INK, mode), font=font)
    return picture


def _encoded(pictures: list[Image.Image], most_bytes: int) -> bytes:
    """A video where there is an encoder, else an animated picture; shorter if it is too large."""
    while True:
        content = _mp4(pictures) if encoder() else _webp(pictures)
        if len(content) <= most_bytes or len(pictures) < 2 * FRAMES_PER_SECOND:
            return content
        pictures = pictures[: len(pictures) // 2]


def _mp4(pictures: list[Image.Image]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        write_mp4(path, pictures)
        return path.read_bytes()


def _webp(pictures: list[Image.Image]) -> bytes:
    buffer = io.BytesIO()
    pause = 1000 // FRAMES_PER_SECOND
    options = {"save_all": True, "append_images": pictures[1:], "duration": pause, "loop": 0}
    pictures[0].save(buffer, format="WEBP", quality=60, method=1, **options)
    return buffer.getvalue()


def read_rollout_videos(
    store: Store, runs: Sequence[RunResult], kept: ReportCache, most_bytes: int
) -> tuple[list[RolloutVideo], list[str]]:
    """Films of these runs, and why some could not be made."""
    films, remarks = [], []
    for run in runs:
        try:
            film = read_rollout_video(store, run, kept, most_bytes)
        except UserError as error:
            remarks.append(f"{run.name} could not be filmed here: {error}.")
        else:
            films += [film] if film else []
    return films, remarks
