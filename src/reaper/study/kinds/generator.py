"""A generator of one task alone, as a stage: for conditions that distil from generated states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.learning.collection import collect_replay
from reaper.study.kinds.base import SHORT_TERM_GROUPS, Inputs, Load, Stage, StageKind, collected_steps
from reaper.study.stage_run import Result, StageRun, read_teacher
from reaper.tasks.sequence import find_task


class GeneratorStage(StageKind):
    """Trains a generator on states that a task's teacher visits."""

    name = "short-term generator"
    groups = (*SHORT_TERM_GROUPS, "generator")

    def stage(self, inputs: Inputs, task: str, teacher: Stage) -> Stage:
        methods = (inputs.settings.generator.name,)
        return self.build(f"train generator on {task}", inputs, {"teacher": teacher}, methods, task=task)

    def run(self, run: StageRun) -> Result:
        context, task = run.context(run.spec["task"]), find_task(run.spec["task"])
        teacher = read_teacher(context, run.parents()["teacher"])
        states = collect_replay(context, teacher.policy, task)
        training = generator_for(context.settings).training(context, states, None, 1)
        return Result({"generator": training.run().state()}, {"generator_curve": training.curve})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load(collected_steps=collected_steps(settings), generator_steps=generator_for(settings).steps)


GENERATOR = GeneratorStage()
