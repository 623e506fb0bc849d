"""The kinds of stages that analyses add to those of a run."""

from __future__ import annotations

import torch

from reaper.context import state_tensors
from reaper.learning.short_term import Gathering
from reaper.memory.items import Items
from reaper.retention.ewc import FisherSum
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Artefact
from reaper.study.analyses.overlap import overlap_rows
from reaper.study.analyses.student import Student, dreamt_states, real_states
from reaper.study.stage_run import Result, Work
from reaper.tasks.sequence import find_task


def teach_student(work: Work) -> Result:
    """A student of one task or of several, from real or from dreamt items."""
    parents, names = work.parents(), work.spec["tasks"]
    # What the items are is not among the names: students of both kinds start alike.
    context, tasks = work.context(*names), [find_task(name) for name in names]
    sources = _numbered(parents, "source")
    if work.spec["items"] == "real":
        actors = [context.q_network(source.tensors("agent")) for source in sources]
        items = Items.on(context.device, real_states(context, tasks, actors))
    else:
        items = Items(dreamt_states(context, context.generator(_generator(sources[0]))))
    student = Student(context, tasks, items.with_targets(context.q_network(parents["teacher"].tensors("agent"))))
    rows = student.learn()
    return Result({"agent": state_tensors(student.network)}, {"rows": rows})


def _numbered(parents: dict[str, Artefact], role: str) -> list[Artefact]:
    """The parents of one role in their order, whatever order a file has them in."""
    count = sum(name.startswith(f"{role} ") for name in parents)
    return [parents[f"{role} {i + 1}"] for i in range(count)]


def _generator(artefact: Artefact) -> dict[str, torch.Tensor]:
    """Of a short-term generator's stage, or of a long-term memory's."""
    held = artefact.has("generator.safetensors")
    return artefact.tensors("generator") if held else read_memory(artefact).part("generator")


def measure_fisher(work: Work) -> Result:
    """The exact Fisher diagonal of an agent on one task."""
    context, task, parents = work.context(work.spec["task"]), find_task(work.spec["task"]), work.parents()
    states = Gathering(context, context.q_network(parents["collector"].tensors("agent")), task).run()
    fisher = FisherSum(context, context.q_network(parents["agent"].tensors("agent")), states).run()
    return Result({"fisher": fisher}, {})


def find_overlaps(work: Work) -> Result:
    """The overlap of each pair of tasks, from the Fisher diagonals before."""
    fishers = [artefact.tensors("fisher") for artefact in _numbered(work.parents(), "fisher")]
    return Result({}, {"overlap": overlap_rows(dict(zip(work.spec["tasks"], fishers, strict=True)))})
