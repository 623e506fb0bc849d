"""Agents trained elsewhere, as two stages: their weights, and the teacher that they make in a sequence.

The weights are copied to the store before anything runs, so that the file they came from may vanish. Their stage is
named by what they are, and not by where they came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.settings import Settings
from reaper.equations import advantages
from reaper.learning.collection import collect_replay
from reaper.learning.short_term import STORED_STATES, VALUE_STATES
from reaper.learning.teachers import load_external
from reaper.storage.manifests import SPEC_FORMAT
from reaper.study import stage_run
from reaper.study.kinds.base import SHORT_TERM_GROUPS, Inputs, Load, Stage, StageKind, collected_steps
from reaper.study.stage_run import EXTERNAL_TEACHER, Result, StageRun
from reaper.tasks.sequence import find_task
from reaper.teachers.files import TeacherFile


class TeacherWeightsStage(StageKind):
    """A copy of the weights; written by whoever read their file (study/external_teachers.py)."""

    name = stage_run.TEACHER_WEIGHTS
    groups = ()
    has_networks = False

    def stage(self, file: TeacherFile) -> Stage:
        spec = {"format": SPEC_FORMAT, "kind": self.name, "settings": {}, "parents": {}}
        spec |= {"network": dict(file.network), "contents": file.contents}
        return Stage(spec, f"weights of {file.source}")

    def run(self, run: StageRun) -> Result:
        raise RuntimeError("the weights of a teacher are written before any stage is run")

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load()


class ExternalTeacherStage(StageKind):
    """The teacher acts in its task, to measure its outputs. All conditions of a seed share it."""

    name = EXTERNAL_TEACHER
    groups = SHORT_TERM_GROUPS

    def stage(self, inputs: Inputs, task: str, weights: Stage) -> Stage:
        title = f"teacher of {task} from {weights.title.removeprefix('weights of ')}"
        return self.build(title, inputs, {"weights": weights}, task=task, network=weights.spec["network"])

    def run(self, run: StageRun) -> Result:
        name, network = run.spec["task"], run.spec["network"]
        context, task = run.context(name), find_task(name)
        weights = run.parents()["weights"].tensors("agent")
        teacher = load_external(context, weights, {"task": name, "network": network})
        replay = collect_replay(context, teacher.policy, task)
        outputs = teacher.outputs(replay.sample_states(VALUE_STATES, context.rng("value statistics")))
        outputs = outputs[:, : task.num_actions]
        values = {"source": "external", "mean": float(outputs.mean()), "deviation": float(outputs.std())}
        values["advantage_deviation"] = float(advantages(outputs).std())
        states = {"real": replay.distinct_states(STORED_STATES, context.rng("pictures")).cpu()}
        return Result({"agent": weights, "states": states}, {"values": values, "rows": []})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load(collected_steps=collected_steps(settings))


TEACHER_WEIGHTS = TeacherWeightsStage()
EXTERNAL = ExternalTeacherStage()
