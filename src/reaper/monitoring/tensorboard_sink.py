"""Curves, images and scores as TensorBoard event files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL.Image import Image

from reaper.monitoring.event_files import PATTERN, CurveFile, image_value, new_event, scalar_value, write_events
from reaper.monitoring.images import as_png
from reaper.monitoring.scores import RunScores


class TensorBoard:
    """OUT/tensorboard/stages/TITLE-DIGEST/ for each stage, OUT/tensorboard/runs/NAME/ for the scores of each run.

    Whoever runs a stage holds its lock, so no two processes write to one stage's folder. The scores of a run depend on
    the store alone, and their file is named by the number of finished stages: every process that writes it writes the
    same contents, and only files with a lower number are removed.
    """

    label = "TensorBoard curves"

    def __init__(self, folder: Path, runner: str) -> None:
        self._folder, self._runner = folder, runner
        self._open: dict[str, CurveFile] = {}

    def _curves(self, stage_name: str) -> CurveFile:
        if stage_name not in self._open:
            self._open[stage_name] = CurveFile(self._folder / "stages" / stage_name, self._runner)
        return self._open[stage_name]

    def truncate(self, stage_name: str, groups: Sequence[str], step: int) -> None:
        self._curves(stage_name).truncate(groups, step)

    def add_scalars(self, stage_name: str, step: int, values: Mapping[str, float]) -> None:
        self._curves(stage_name).add(step, [scalar_value(tag, value) for tag, value in values.items()])

    def add_image(self, stage_name: str, tag: str, step: int, image: Image) -> None:
        curves = self._curves(stage_name)
        step = max([step, *curves.last_steps.values()])  # an image belongs to the end of its stage
        curves.add(step, [image_value(tag, as_png(image), image.size)])

    def lacks(self, stage_name: str, tag: str) -> bool:
        """Whether no file of a stage mentions the tag. Does not open its `CurveFile`, which would rewrite it."""
        files = (self._folder / "stages" / stage_name).glob(PATTERN)
        return not any(tag.encode() in path.read_bytes() for path in files)

    def add_scores(self, scores: RunScores, matrix: Image | None) -> None:
        folder = self._folder / "runs" / scores.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{scores.finished:010d}.scores"
        if path.exists():
            return
        events = [new_event(step, [scalar_value(*pair) for pair in values.items()]) for step, values in scores.points]
        if matrix is not None:
            events.append(new_event(scores.learnt, [image_value("score_matrix", as_png(matrix), matrix.size)]))
        write_events(path, events)
        for older in sorted(folder.glob(PATTERN))[:-1]:
            older.unlink(missing_ok=True)

    def close(self, failed: bool) -> None:
        self._open.clear()
