"""Algorithm 2 as a stage: the long-term agent learns one more task and retains the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper.config.overrides import GROUPS, reset_from_second_task
from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.learning.long_term import Consolidation, in_long_term
from reaper.memory.long_term import LongTermMemory
from reaper.retention import RETENTIONS
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Artefact
from reaper.study.conditions import OBJECTIVES, Condition, knowledge_for
from reaper.study.kinds.base import Inputs, Load, Stage, StageKind, collected_steps, training_load
from reaper.study.stage_run import EXTERNAL_TEACHER, Result, StageRun, read_teacher
from reaper.tasks.sequence import find_task


class ConsolidateStage(StageKind):
    """Distils a task into the long-term memory; the first task's memory is made from its teacher."""

    name = "consolidate"
    groups = GROUPS

    def stage(
        self,
        inputs: Inputs,
        condition: Condition,
        tasks: tuple[str, ...],
        parents: Mapping[str, Stage | None],
    ) -> Stage:
        """`tasks` are those learnt before and, last, the new one; parents are `memory`, `teacher`, `generator`."""
        axes = condition.axes()
        methods = [axes["retention"]]
        if condition.uses_generator:
            methods.append(inputs.settings.generator.name)
        owner = condition.name
        if not parents.get("memory"):
            # The points of a sweep differ from the second task on, so they share their first memory.
            inputs, owner = replace(inputs, settings=reset_from_second_task(inputs.settings)), condition.base or owner
        title = f"{owner}: consolidate {tasks[-1]}"
        teacher, more = parents.get("teacher"), {}
        if not parents.get("memory") and teacher and teacher.kind == EXTERNAL_TEACHER:
            more = {"from_scratch": True}  # there is nothing that it could be a copy of
        return self.build(title, inputs, parents, methods, tasks=list(tasks), axes=axes, **more)

    def run(self, run: StageRun) -> Result:
        parents, axes, tasks = run.parents(), run.spec["axes"], run.spec["tasks"]
        context = in_long_term(run.context(*tasks))
        consolidation = Consolidation(
            context=context,
            tasks=tuple(find_task(name) for name in tasks),
            objective=OBJECTIVES[axes["objective"]](),
            retention=RETENTIONS.configure(axes["retention"], context.settings),
            knowledge=knowledge_for(axes["knowledge"], context.settings),
            teacher=read_teacher(context, parents["teacher"]) if "teacher" in parents else None,
            generator=parents["generator"].tensors("generator") if "generator" in parents else None,
        )
        done = consolidation.run(read_complete_memory(parents["memory"]) if "memory" in parents else None)
        tensors = {"agent": done.memory.agent, "retained": done.memory.retained, "states": done.states}
        memory = {"tasks": list(done.memory.tasks), "bytes": done.memory.bytes}
        if (items := consolidation.retention.num_items(done.memory)) is not None:
            memory["items"] = items
        if (compressed := consolidation.retention.compressed_bytes(done.memory)) is not None:
            memory["compressed_bytes"] = compressed
        documents = {"memory": memory, "rows": done.rows, "generator_curve": done.generator_curve}
        documents |= {"best_weights": done.best} if done.best else {}
        return Result({name: group for name, group in tensors.items() if group}, documents)

    def load(self, spec: Mapping[str, Any], settings: Settings) -> Load:
        retention = RETENTIONS.configure(spec["axes"]["retention"], settings)
        remembering = Load(
            generator_steps=generator_for(settings).steps if retention.trains_generator else 0,
            fisher_batches=settings.fisher.batches if retention.measures_fisher else 0,
        )
        if "memory" in spec["parents"] or spec.get("from_scratch"):
            return training_load(settings, settings.long_term.agent_steps, len(spec["tasks"])) + remembering
        if retention.trains_generator and "generator" in spec["parents"]:
            return Load()  # the short-term generator is adopted
        return remembering + Load(collected_steps=collected_steps(settings) if retention.needs_states else 0)


def read_complete_memory(artefact: Artefact) -> LongTermMemory:
    """A long-term memory to continue from. One that was packed without what it retained can only be evaluated."""
    if "retained.safetensors" in artefact.left_out:
        artefact.verified("retained.safetensors")  # raises an error that names the file
    return read_memory(artefact)


CONSOLIDATE = ConsolidateStage()
