"""Turns the events of stages into curves and images for one sink: TensorBoard or wandb."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from PIL.Image import Image

from reaper.errors import ReaperError
from reaper.monitoring.images import matrix_image, mosaic
from reaper.monitoring.scores import RunScores, read_scores
from reaper.progress import CurvePoints, CurvesRestarted, Event, StageCached, StageFinished
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage
from reaper.study.stage_run import settings_of
from reaper.tasks.observation import IMAGE, state_spec


def readable_name(stage: Stage) -> str:
    """A folder name that is readable and unique to the stage."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stage.title).strip("-")
    return f"{plain[:80]}-{stage.digest[:8]}"


class Sink(Protocol):
    """Where curves, images and scores are written."""

    label: str

    def truncate(self, stage_name: str, groups: Sequence[str], step: int) -> None:
        """Removes the points of these groups of curves beyond a step; they will be logged again."""
        ...

    def add_scalars(self, stage_name: str, step: int, values: Mapping[str, float]) -> None: ...

    def add_image(self, stage_name: str, tag: str, step: int, image: Image) -> None: ...

    def lacks(self, stage_name: str, tag: str) -> bool:
        """Whether a stage is known to have nothing with this tag."""
        ...

    def add_scores(self, scores: RunScores, matrix: Image | None) -> None: ...

    def close(self, failed: bool) -> None: ...


class Recorder:
    """A listener that feeds one sink. The first error of the sink is passed to `warn`; stages continue without it."""

    def __init__(self, store: Store, sink: Sink, run_names: Sequence[str], warn: Callable[[str], None]) -> None:
        self._store, self._run_names, self._warn = store, run_names, warn
        self._sink: Sink | None = sink
        self._last_steps: dict[str, int] = {}  # stage -> step of its latest point

    def __call__(self, stage: Stage, event: Event) -> None:
        if self._sink is None:
            return
        try:
            self._record(self._sink, stage, event)
        except Exception as error:
            self._give_up(self._sink, error)

    def _record(self, sink: Sink, stage: Stage, event: Event) -> None:
        name = readable_name(stage)
        match event:
            case CurvesRestarted():
                sink.truncate(name, event.groups, event.step)
            case CurvePoints():
                self._last_steps[name] = max(self._last_steps.get(name, 0), event.step)
                sink.add_scalars(name, event.step, event.values)
            case StageCached() if not self._store.shared:
                self._add_states(sink, stage, only_missing=True)  # a process that was killed may not have added them
            case StageFinished():
                self._add_states(sink, stage)
                if stage.kind == "evaluate":
                    self._add_scores(sink, stage.digest)

    def _add_states(self, sink: Sink, stage: Stage, only_missing: bool = False) -> None:
        """Images of the states that the stage stored: real ones of its task, or generated ones."""
        artefact, name = self._store.stage(stage.digest), readable_name(stage)
        if not artefact.has("states.safetensors") or (only_missing and not sink.lacks(name, "states/")):
            return
        observation = state_spec(settings_of(stage.spec).observation)
        if observation.kind != IMAGE:
            return
        for source, states in artefact.tensors("states").items():
            image = mosaic(states.numpy(), observation)
            sink.add_image(name, f"states/{source}", self._last_steps.get(name, 0), image)

    def _add_scores(self, sink: Sink, evaluation: str | None = None) -> None:
        """Scores of the runs that this evaluation belongs to, or of all runs."""
        for name in self._run_names:
            record = self._store.run(name)
            if evaluation is None or evaluation in record.evaluations:
                scores = read_scores(self._store, record)
                has_matrix = scores.result.consolidates and scores.learnt
                sink.add_scores(scores, matrix_image(scores.result.matrix, list(record.titles)) if has_matrix else None)

    def _give_up(self, sink: Sink, error: Exception) -> None:
        self._sink = None
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, ReaperError):
            reason = str(error)
        self._warn(f"no more {sink.label} from here on ({reason}); the run continues")

    def close(self, failed: bool) -> None:
        """Also adds scores of stages that were in the store before this study, unless the study failed."""
        if (sink := self._sink) is None:
            return
        try:
            if not failed:
                self._add_scores(sink)
            sink.close(failed)
        except Exception as error:
            self._give_up(sink, error)
