"""A student trained from scratch on items, as a stage (Table scratch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from reaper.config.settings import Settings
from reaper.context import state_tensors
from reaper.generators import generator_for
from reaper.memory.items import Items
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Artefact
from reaper.study.analyses.student import Student, generated_states, real_states
from reaper.study.kinds.base import (
    SHORT_TERM_GROUPS,
    Inputs,
    Load,
    Stage,
    StageKind,
    collected_steps,
    training_load,
)
from reaper.study.stage_run import Result, StageRun, numbered, read_teacher
from reaper.tasks.sequence import find_task


class StudentStage(StageKind):
    """A fresh DQN that learns a teacher's outputs for real or for generated items of one task or several."""

    name = "student"
    groups = (*SHORT_TERM_GROUPS, "long_term", "generator")

    def stage(self, inputs: Inputs, tasks: tuple[str, ...], items: str, teacher: Stage, sources: list[Stage]) -> Stage:
        """`items` are "real", collected by the sources (a teacher per task), or "generated" by the only source."""
        parents = {"teacher": teacher, **{f"source {i + 1}": stage for i, stage in enumerate(sources)}}
        title = f"student of {' and '.join(tasks)} from {items} items"
        methods = (inputs.settings.generator.name,)
        return self.build(title, inputs, parents, methods, tasks=list(tasks), items=items)

    def run(self, run: StageRun) -> Result:
        parents, names = run.parents(), run.spec["tasks"]
        # The kind of items is not among the names of the random streams: both kinds of students start alike.
        context, tasks = run.context(*names), [find_task(name) for name in names]
        sources = numbered(parents, "source")
        if run.spec["items"] == "real":
            policies = [read_teacher(context, source).policy for source in sources]
            items = Items.on(context.device, real_states(context, tasks, policies))
        else:
            generator = generator_for(context.settings).load(context, _generator_tensors(sources[0]))
            items = Items(generated_states(context, generator))
        student = Student(context, tasks, items.with_targets(context.q_network(parents["teacher"].tensors("agent"))))
        rows = student.learn()
        return Result({"agent": state_tensors(student.network)}, {"rows": rows})

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        num_tasks = len(spec["tasks"])
        collected = num_tasks * collected_steps(settings) if spec["items"] == "real" else 0
        training = training_load(settings, settings.long_term.agent_steps, num_tasks)
        return training + Load(collected_steps=collected)


def _generator_tensors(artefact: Artefact) -> dict[str, torch.Tensor]:
    """Of a short-term generator's stage, or of a long-term memory's."""
    own = artefact.has("generator.safetensors")
    return artefact.tensors("generator") if own else read_memory(artefact).part("generator")


STUDENT = StudentStage()
