"""The first long-term agent, as a stage, where its teacher has another network: it learns the teacher's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper.config.overrides import reset_from_second_task
from reaper.config.settings import Settings
from reaper.learning.long_term import Consolidation, in_long_term
from reaper.learning.objectives import Distillation
from reaper.retention import NoRetention
from reaper.study.conditions import Condition, knowledge_for
from reaper.study.kinds.base import SHORT_TERM_GROUPS, Inputs, Load, Stage, StageKind, training_load
from reaper.study.stage_run import Result, StageRun, read_teacher
from reaper.tasks.sequence import find_task

VALUES = "Q-values"  # the kind of knowledge whose targets `long-term.targets` chooses


class DistilStage(StageKind):
    """A fresh network like the long-term agent's learns the first task from its teacher. All conditions of a seed share
    it: each then makes its first long-term memory from it, as from a teacher that has this network. It learns what
    `long-term.targets` says, since what is lost here is lost to all; its outputs then have the teacher's size again."""

    name = "distil"
    groups = (*SHORT_TERM_GROUPS, "long_term")

    def stage(self, inputs: Inputs, task: str, teacher: Stage, condition: Condition) -> Stage:
        # How much earlier tasks count has no effect on the first one.
        settings = reset_from_second_task(inputs.settings)
        if condition.knowledge != VALUES:  # it has targets of its own, whatever `long-term.targets` says
            settings = replace(settings, long_term=replace(settings.long_term, targets="values"))
        inputs = replace(inputs, settings=settings)
        return self.build(f"distil {task}", inputs, {"teacher": teacher}, task=task)

    def run(self, run: StageRun) -> Result:
        name, artefact = run.spec["task"], run.parents()["teacher"]
        states = artefact.tensors("states")  # read before training: a pack may lack them
        context = in_long_term(run.context(name))
        teacher, knowledge = read_teacher(context, artefact), knowledge_for(VALUES, context.settings)
        consolidation = Consolidation(
            context=context,
            tasks=(find_task(name),),
            objective=Distillation(),
            retention=NoRetention(),
            knowledge=knowledge,
            teacher=teacher,
        )
        done = consolidation.run(None)
        agent = knowledge.in_teacher_units(done.memory.agent, knowledge.deviation(teacher))
        documents = {"values": artefact.document("values"), "rows": done.rows, "best_weights": done.best}
        return Result({"agent": agent, "states": states}, documents)

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return training_load(settings, settings.long_term.agent_steps, num_tasks=1)


DISTIL = DistilStage()
