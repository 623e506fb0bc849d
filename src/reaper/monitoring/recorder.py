"""Turns what stages tell into curves and pictures, and hands them to TensorBoard and, if asked, to wandb."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from PIL.Image import Image

from reaper.errors import ReaperError
from reaper.monitoring.event_files import PATTERN, Curves, new_event, picture, scalar, write_events
from reaper.monitoring.images import as_png, matrix_picture, mosaic
from reaper.monitoring.scores import RunScores, read_scores
from reaper.progress import Event
from reaper.storage.store import Store
from reaper.study.stages import Stage


def name_of(stage: Stage) -> str:
    """A folder's name that a person can read and no other stage has."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stage.title).strip("-")
    return f"{plain[:80]}-{stage.digest[:8]}"


class Sink(Protocol):
    """Somewhere to draw curves."""

    def forget(self, place: str, curves: Sequence[str], step: int) -> None: ...

    def scalars(self, place: str, step: int, values: Mapping[str, float]) -> None: ...

    def image(self, place: str, tag: str, step: int, image: Image) -> None: ...

    def lacks(self, place: str, tag: str) -> bool: ...

    def scores(self, scores: RunScores, matrix: Image | None) -> None: ...

    def close(self, failed: bool) -> None: ...


class TensorBoard:
    """OUT/tensorboard/stages/TITLE-DIGEST/ for each stage, OUT/tensorboard/runs/NAME/ for the scores of each run.

    Whoever runs a stage holds its lock, so no two processes write to one stage's folder. The scores of a run are
    drawn from the store alone, into a file that is named by how many stages they were drawn from: whoever writes it
    writes the same, and only files with fewer are removed.
    """

    label = "TensorBoard's curves"

    def __init__(self, folder: Path, runner: str) -> None:
        self.folder, self.runner = folder, runner
        self.open: dict[str, Curves] = {}

    def _curves(self, place: str) -> Curves:
        if place not in self.open:
            self.open[place] = Curves(self.folder / "stages" / place, self.runner)
        return self.open[place]

    def forget(self, place: str, curves: Sequence[str], step: int) -> None:
        self._curves(place).forget(curves, step)

    def scalars(self, place: str, step: int, values: Mapping[str, float]) -> None:
        self._curves(place).add(step, [scalar(tag, value) for tag, value in values.items()])

    def image(self, place: str, tag: str, step: int, image: Image) -> None:
        curves = self._curves(place)
        step = max([step, *curves.last.values()])  # a picture belongs to the end of its stage
        curves.add(step, [picture(tag, as_png(image), image.size)])

    def lacks(self, place: str, tag: str) -> bool:
        """Whether no file of a stage has such a point; without opening its curves, which writes them anew."""
        files = (self.folder / "stages" / place).glob(PATTERN)
        return not any(tag.encode() in path.read_bytes() for path in files)

    def scores(self, scores: RunScores, matrix: Image | None) -> None:
        folder = self.folder / "runs" / scores.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{scores.finished:010d}.scores"
        if path.exists():
            return
        events = [new_event(step, [scalar(*pair) for pair in values.items()]) for step, values in scores.points]
        if matrix is not None:
            events.append(new_event(scores.learnt, [picture("score_matrix", as_png(matrix), matrix.size)]))
        write_events(path, events)
        for older in sorted(folder.glob(PATTERN))[:-1]:
            older.unlink(missing_ok=True)

    def close(self, failed: bool) -> None:
        self.open.clear()


class Recorder:
    """A listener that feeds one sink. Whatever goes wrong there is said once, and the stages go on without it."""

    def __init__(
        self, store: Store, sink: Sink, names: Sequence[str], warn: Callable[[str], None], alone: bool = True
    ) -> None:
        self.store, self.names, self.warn = store, names, warn
        self.alone = alone  # no other process is at work on the folder
        self.sink: Sink | None = sink
        self.steps: dict[str, int] = {}  # the last step of each stage

    def __call__(self, stage: Stage, event: Event) -> None:
        if self.sink is None:
            return
        try:
            self._tell(self.sink, stage, event)
        except Exception as error:
            self._give_up(error)

    def _tell(self, sink: Sink, stage: Stage, event: Event) -> None:
        kind, place = event.get("event", "progress"), name_of(stage)
        if kind == "curves":
            sink.forget(place, event["curves"], event["step"])
        elif kind == "measured":
            self.steps[place] = max(self.steps.get(place, 0), event["step"])
            sink.scalars(place, event["step"], event["values"])
        elif kind == "kept" and self.alone:
            self._show_pictures(sink, stage, missing=True)
        elif kind == "finished":
            self._show_pictures(sink, stage)
            if stage.kind == "evaluate":
                self._score(sink, stage.digest)

    def _show_pictures(self, sink: Sink, stage: Stage, missing: bool = False) -> None:
        """Real states of a teacher's task, or what a long-term memory dreams of; or those of them that a process which
        was killed has not come to draw."""
        artefact, place = self.store.stage(stage.digest), name_of(stage)
        if not artefact.has("pictures.safetensors") or (missing and not sink.lacks(place, "states/")):
            return
        for name, states in artefact.tensors("pictures").items():
            sink.image(place, f"states/{name}", self.steps.get(place, 0), mosaic(states.numpy()))

    def _score(self, sink: Sink, digest: str | None = None) -> None:
        """The scores of the runs that this stage has evaluated, or of all."""
        for name in self.names:
            record = self.store.run(name)
            if digest is None or digest in record["evaluations"]:
                scores = read_scores(self.store, record)
                known = scores.result.consolidates and scores.learnt
                sink.scores(scores, matrix_picture(scores.result.matrix, record["titles"]) if known else None)

    def _give_up(self, error: Exception) -> None:
        sink, self.sink = self.sink, None
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, ReaperError):
            reason = str(error)
        self.warn(f"no more of {getattr(sink, 'label', 'the curves')} from here on ({reason}); the run goes on")

    def close(self, failed: bool) -> None:
        """Scores that were there before this study, as well: unless something is wrong, which is said already."""
        try:
            if self.sink:
                if not failed:
                    self._score(self.sink)
                self.sink.close(failed)
        except Exception as error:
            self._give_up(error)
