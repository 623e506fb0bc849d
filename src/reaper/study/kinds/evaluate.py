"""Whole episodes of each task, as a stage: by a teacher, by a long-term agent, or at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.settings import Settings
from reaper.learning.evaluation.episodes import evaluate
from reaper.state import Rows
from reaper.study.kinds.base import Inputs, Load, Stage, StageKind
from reaper.study.stage_run import Result, StageRun, read_policy
from reaper.tasks.sequence import find_task


class EvaluateStage(StageKind):
    """Evaluates the agent of another stage."""

    name = "evaluate"
    groups = ("observation", "network", "evaluation")

    def stage(self, inputs: Inputs, title: str, tasks: tuple[str, ...], subject: Stage | None) -> Stage:
        """Without a subject, actions are random."""
        return self.build(title, inputs, {"subject": subject}, tasks=list(tasks))

    def run(self, run: StageRun) -> Result:
        # The subject is not among the names of the random streams: all agents of a seed meet the same episodes.
        context, tasks, rows = run.context(), run.spec["tasks"], Rows()
        subject = run.parents().get("subject")
        run.checkpointer.register("rows", rows)
        run.progress.begin("evaluate", len(tasks), "tasks", done=len(rows))
        for name in tasks[len(rows) :]:
            network = read_policy(context, subject, name) if subject else None
            rows.append(evaluate(context, network, find_task(name), 0))
            run.progress.advance(1)
        return Result({}, {"rows": rows})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return Load(episodes=len(spec["tasks"]) * settings.evaluation.episodes)


EVALUATE = EvaluateStage()
