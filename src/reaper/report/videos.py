"""Videos of an agent playing: GIF in the base install, MP4 with the `video` extra."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from reaper.errors import UserError
from reaper.storage.files import atomic_file, check_output_file

SIDE = 336  # pixels, about; a multiple of 16 and of 84, so that both frame sizes are enlarged without blur
FRAMES_PER_SECOND = 15
NO_ENCODER = "MP4 videos need ffmpeg: pip install 'reaper-rl[video]' (or write a .gif)"
BANNER = 24  # pixels above the frame, for title and score


def _annotated(frame: np.ndarray, caption: str) -> Image.Image:
    scale = max(1, round(SIDE / frame.shape[0]))
    enlarged = Image.fromarray(frame).resize((frame.shape[1] * scale, frame.shape[0] * scale), Image.Resampling.NEAREST)
    image = Image.new(enlarged.mode, (enlarged.width, enlarged.height + BANNER), grey(16, enlarged.mode))
    image.paste(enlarged, (0, BANNER))
    ImageDraw.Draw(image).text((8, 6), caption, fill=grey(235, enlarged.mode))
    return image


def grey(level: int, mode: str) -> int | tuple[int, int, int]:
    """A grey as a PIL image of this mode (L or RGB) takes it."""
    return level if mode == "L" else (level, level, level)


def write_video(path: Path, episode: Iterable[tuple[np.ndarray, float]], title: str, max_frames: int = 3_000) -> float:
    """Writes an episode's frames with the running score and returns the final one; the suffix selects the format."""
    check_video_file(path)
    images, score = [], 0.0
    for number, (frame, score) in enumerate(episode):
        if number < max_frames:
            images.append(_annotated(frame, f"{title}   {score:g}"))
    with atomic_file(path) as part:
        if path.suffix == ".gif":
            more: Any = {"save_all": True, "append_images": images[1:], "duration": 1000 // FRAMES_PER_SECOND}
            images[0].save(part, format="GIF", loop=0, optimize=False, **more)
        else:
            write_mp4(part, images)
    return score


def check_video_file(path: Path) -> None:
    """Raises UserError where no video can be written, before anything is played."""
    if path.suffix not in (".gif", ".mp4"):
        raise UserError(f"--video writes .gif or .mp4 files, not {path.suffix or path.name!r}")
    check_output_file(path)
    if path.suffix == ".mp4" and not encoder():
        raise UserError(NO_ENCODER)


def encoder() -> str | None:
    """The name of the ffmpeg that the `video` extra installs; None without it."""
    try:
        import imageio_ffmpeg

        return Path(imageio_ffmpeg.get_ffmpeg_exe()).name
    except (ImportError, RuntimeError):
        return None


def write_mp4(path: Path, images: list[Image.Image]) -> None:
    """H.264; width and height of the images must be even."""
    if not encoder():
        raise UserError(NO_ENCODER)
    import imageio_ffmpeg

    kind = {"L": "gray", "RGB": "rgb24"}[images[0].mode]
    options: Any = {"pix_fmt_in": kind, "pix_fmt_out": "yuv420p", "fps": FRAMES_PER_SECOND, "macro_block_size": 2}
    encoding = ["-crf", "28", "-preset", "veryfast", "-movflags", "+faststart", "-f", "mp4"]
    options |= {"quality": None, "output_params": encoding}
    writer = imageio_ffmpeg.write_frames(str(path), images[0].size, **options)
    writer.send(None)
    for image in images:
        writer.send(image.tobytes())
    writer.close()
