"""Moving pictures of an agent at play: GIF with what the base install has, MP4 with the `video` extra."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from reaper.errors import UserError
from reaper.storage.files import storing

SIDE = 336  # pixels, about; a multiple of 16 and of 84, so that both kinds of frame are enlarged without blur
FRAMES_PER_SECOND = 15
BANNER = 24


def _picture(frame: np.ndarray, caption: str) -> Image.Image:
    scale = max(1, round(SIDE / frame.shape[0]))
    enlarged = Image.fromarray(frame).resize((frame.shape[1] * scale, frame.shape[0] * scale), Image.Resampling.NEAREST)
    picture = Image.new(enlarged.mode, (enlarged.width, enlarged.height + BANNER), grey(16, enlarged.mode))
    picture.paste(enlarged, (0, BANNER))
    ImageDraw.Draw(picture).text((8, 6), caption, fill=grey(235, enlarged.mode))
    return picture


def grey(level: int, mode: str) -> int | tuple[int, int, int]:
    """A grey as a picture of this mode takes it: L, or RGB."""
    return level if mode == "L" else (level, level, level)


def write_video(path: Path, game: Iterable[tuple[np.ndarray, float]], title: str, most_frames: int = 3_000) -> float:
    """Writes a game's frames with a running score; returns the last score. The file's ending chooses the format."""
    pictures, score = [], 0.0
    for number, (frame, score) in enumerate(game):
        if number < most_frames:
            pictures.append(_picture(frame, f"{title}   {score:g}"))
    if path.suffix not in (".gif", ".mp4"):
        raise UserError(f"--video writes .gif or .mp4 files, not {path.suffix or path.name!r}")
    with storing(path):
        if path.suffix == ".gif":
            pause = 1000 // FRAMES_PER_SECOND
            pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=pause, loop=0, optimize=False)
        else:
            write_mp4(path, pictures)
    return score


def encoder() -> str | None:
    """Which ffmpeg the `video` extra brings; None without it."""
    try:
        import imageio_ffmpeg

        return Path(imageio_ffmpeg.get_ffmpeg_exe()).name
    except (ImportError, RuntimeError):
        return None


def write_mp4(path: Path, pictures: list[Image.Image]) -> None:
    """H.264; both sides of the pictures must be even."""
    if not encoder():
        raise UserError("MP4 videos need ffmpeg: pip install 'reaper-rl[video]' (or write a .gif)")
    import imageio_ffmpeg

    kind = {"L": "gray", "RGB": "rgb24"}[pictures[0].mode]
    options: Any = {"pix_fmt_in": kind, "pix_fmt_out": "yuv420p", "fps": FRAMES_PER_SECOND, "macro_block_size": 2}
    options |= {"quality": None, "output_params": ["-crf", "28", "-preset", "veryfast", "-movflags", "+faststart"]}
    writer = imageio_ffmpeg.write_frames(str(path), pictures[0].size, **options)
    writer.send(None)
    for picture in pictures:
        writer.send(picture.tobytes())
    writer.close()
