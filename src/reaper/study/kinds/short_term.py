"""Algorithm 1 as a stage: a fresh DQN learns one task and becomes its teacher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.config.settings import Settings
from reaper.learning.short_term import ShortTerm
from reaper.study.kinds.base import SHORT_TERM_GROUPS, Inputs, Load, Stage, StageKind, training_load
from reaper.study.stage_run import Result, StageRun
from reaper.tasks.sequence import find_task


class ShortTermStage(StageKind):
    """Learns one task by deep Q-learning. All conditions of a seed share it."""

    name = "short-term"
    groups = SHORT_TERM_GROUPS

    def stage(self, inputs: Inputs, task: str) -> Stage:
        return self.build(f"learn {task}", inputs, {}, task=task)

    def run(self, run: StageRun) -> Result:
        task = run.spec["task"]
        trained = ShortTerm(run.context(task), find_task(task)).learn()
        values = {"mean": trained.value_mean, "deviation": trained.value_std}
        values |= {"advantage_deviation": trained.advantage_std}
        tensors = {"agent": trained.weights, "states": trained.states}
        return Result(tensors, {"values": values, "rows": trained.rows, "best_weights": trained.best})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        return training_load(settings, settings.short_term.agent_steps, num_tasks=1)


SHORT_TERM = ShortTermStage()
