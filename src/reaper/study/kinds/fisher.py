"""How much each weight matters to a task, and how far these weights are shared, as stages (Table F-over)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.settings import Settings
from reaper.learning.collection import collect_replay
from reaper.retention.ewc import FisherSum
from reaper.study.analyses.overlap import overlap_rows
from reaper.study.kinds.base import SHORT_TERM_GROUPS, Inputs, Load, Stage, StageKind, collected_steps
from reaper.study.stage_run import Result, StageRun, numbered, read_teacher
from reaper.tasks.sequence import find_task


class FisherStage(StageKind):
    """The exact Fisher diagonal of an agent on one task, for states that the task's teacher visits."""

    name = "fisher"
    groups = (*SHORT_TERM_GROUPS, "fisher")

    def stage(self, inputs: Inputs, condition: str, task: str, agent: Stage, teacher: Stage) -> Stage:
        title = f"{condition}: Fisher matrix of {task}"
        return self.build(title, inputs, {"agent": agent, "collector": teacher}, task=task)

    def run(self, run: StageRun) -> Result:
        context, task, parents = run.context(run.spec["task"]), find_task(run.spec["task"]), run.parents()
        states = collect_replay(context, read_teacher(context, parents["collector"]).policy, task)
        fisher = FisherSum(context, context.q_network(parents["agent"].tensors("agent")), states).run()
        return Result({"fisher": fisher}, {})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load(collected_steps=collected_steps(settings), fisher_batches=settings.fisher.batches)


class OverlapStage(StageKind):
    """The overlap of each pair of tasks, from one Fisher diagonal per task."""

    name = "overlap"
    groups = ()
    has_networks = False

    def stage(self, inputs: Inputs, condition: str, tasks: tuple[str, ...], fishers: list[Stage]) -> Stage:
        parents = {f"fisher {i + 1}": stage for i, stage in enumerate(fishers)}
        return self.build(f"{condition}: overlap of tasks", inputs, parents, tasks=list(tasks))

    def run(self, run: StageRun) -> Result:
        fishers = [artefact.tensors("fisher") for artefact in numbered(run.parents(), "fisher")]
        return Result({}, {"overlap": overlap_rows(dict(zip(run.spec["tasks"], fishers, strict=True)))})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load()


FISHER = FisherStage()
OVERLAP = OverlapStage()
