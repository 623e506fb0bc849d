"""Stages: the steps of a run, each a pure function of its spec and of the stages before it.

A stage's spec is plain JSON: what kind it is, the settings it depends on, and the digests of its parents. Its name is
the digest of its spec, so equal stages of different conditions and runs are one stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from reaper.compute.compilation import flush_denormals, use_quick_arithmetic
from reaper.config.presets import as_dict
from reaper.config.settings import Settings
from reaper.context import state_tensors
from reaper.errors import Diverged
from reaper.generators.gan.training import train_generator
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import Gathering, ShortTerm
from reaper.memory.long_term import LongTermMemory
from reaper.progress import Progress
from reaper.retention import RETENTIONS
from reaper.state import Rows
from reaper.storage.checkpoints import CheckpointDir, Checkpointer
from reaper.storage.exported_memory import read_memory
from reaper.storage.files import digest_of
from reaper.storage.manifests import SPEC_FORMAT, Provenance, StageManifest
from reaper.storage.store import Artefact, Store
from reaper.study.analyses.stages import find_overlaps, measure_fisher, teach_student
from reaper.study.conditions import KNOWLEDGE, OBJECTIVES
from reaper.study.stage_run import Result, StageResources, Work, read_teacher
from reaper.system import processor_name
from reaper.tasks.sequence import find_task
from reaper.version import VERSION

# The settings a teacher depends on; leaving out the rest lets conditions share it.
_SHORT_TERM_PARTS = ("observation", "network", "optimiser", "training", "short_term", "evaluation")


@dataclass(frozen=True)
class Stage:
    """One step of a run: what to do, and which stages must come first."""

    spec: Mapping[str, Any]
    title: str = field(compare=False)

    @property
    def digest(self) -> str:
        return digest_of(self.spec)

    @property
    def kind(self) -> str:
        return self.spec["kind"]

    @property
    def parents(self) -> Mapping[str, str]:
        """Role -> digest of a stage that must be finished before."""
        return self.spec["parents"]

    @property
    def manifest(self) -> StageManifest:
        return StageManifest(self.spec, self.title)


def _stage(title: str, kind: str, settings: Mapping[str, Any], parents: Mapping[str, str], **inputs: Any) -> Stage:
    spec = {"format": SPEC_FORMAT, "kind": kind, "settings": settings, "parents": dict(parents), **inputs}
    return Stage(spec, f"{title} (seed {inputs['seed']})")


def _parts(settings: Settings, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: part for name, part in as_dict(settings).items() if name in names}


def short_term_stage(settings: Settings, task: str, num_actions: int, seed: int) -> Stage:
    parts = _parts(settings, _SHORT_TERM_PARTS)
    return _stage(f"learn {task}", "short-term", parts, {}, task=task, num_actions=num_actions, seed=seed)


def generator_stage(settings: Settings, task: str, num_actions: int, seed: int, teacher: Stage) -> Stage:
    parts = _parts(settings, (*_SHORT_TERM_PARTS, "generator"))
    parents = {"teacher": teacher.digest}
    return _stage(
        f"dream of {task}", "short-term generator", parts, parents, task=task, num_actions=num_actions, seed=seed
    )


def consolidation_stage(
    title: str,
    settings: Settings,
    tasks: tuple[str, ...],
    num_actions: int,
    seed: int,
    axes: Mapping[str, Any],
    parents: Mapping[str, Stage | None],
) -> Stage:
    """`tasks` are those learnt before and, last, the new one; `axes` a condition's objective, retention, knowledge."""
    digests = {role: parent.digest for role, parent in parents.items() if parent}
    inputs = {"tasks": list(tasks), "num_actions": num_actions, "seed": seed, "axes": dict(axes)}
    return _stage(title, "consolidate", as_dict(settings), digests, **inputs)


def evaluation_stage(
    title: str, settings: Settings, tasks: tuple[str, ...], num_actions: int, seed: int, subject: Stage | None
) -> Stage:
    """Whole games of each task, by a teacher, a long-term agent or (without a subject) at random."""
    parts = _parts(settings, ("observation", "network", "evaluation"))
    parents = {"subject": subject.digest} if subject else {}
    return _stage(title, "evaluate", parts, parents, tasks=list(tasks), num_actions=num_actions, seed=seed)


def student_stage(
    settings: Settings,
    tasks: tuple[str, ...],
    num_actions: int,
    seed: int,
    items: str,
    teacher: Stage,
    sources: list[Stage],
) -> Stage:
    """A fresh DQN taught `teacher`'s answers to items of the tasks: "real" ones, for which the sources (a teacher a
    task) play, or "dreamt" ones of the only source, a stage with a generator."""
    parts = _parts(settings, (*_SHORT_TERM_PARTS, "long_term", "generator"))
    parents = {"teacher": teacher.digest, **{f"source {i + 1}": stage.digest for i, stage in enumerate(sources)}}
    title = f"student of {' and '.join(tasks)} from {items} items"
    return _stage(title, "student", parts, parents, tasks=list(tasks), num_actions=num_actions, seed=seed, items=items)


def fisher_stage(
    title: str, settings: Settings, task: str, num_actions: int, seed: int, agent: Stage, actor: Stage
) -> Stage:
    """How much each weight of `agent` matters to its answers on the states that `player`, the task's teacher, meets."""
    parts = _parts(settings, (*_SHORT_TERM_PARTS, "ewc"))
    parents = {"agent": agent.digest, "collector": actor.digest}
    return _stage(title, "fisher", parts, parents, task=task, num_actions=num_actions, seed=seed)


def overlap_stage(title: str, tasks: tuple[str, ...], seed: int, fishers: list[Stage]) -> Stage:
    """How far the weights that matter to each pair of tasks are the same; one Fisher stage a task."""
    parents = {f"fisher {i + 1}": stage.digest for i, stage in enumerate(fishers)}
    return _stage(title, "overlap", {}, parents, tasks=list(tasks), seed=seed)


# -- running a stage


def read_whole(artefact: Artefact) -> LongTermMemory:
    """A long-term memory to learn on from; one that was thinned on its way still plays, but lacks what it retained."""
    if "retained.safetensors" in artefact.left_out:
        artefact.verified("retained.safetensors")  # says so
    return read_memory(artefact)


def _short_term(work: Work) -> Result:
    task = work.spec["task"]
    teacher = ShortTerm(work.context(task), find_task(task)).learn()
    values = {"mean": teacher.value_mean, "deviation": teacher.value_deviation}
    return Result({"agent": teacher.weights, "pictures": teacher.pictures}, {"values": values, "rows": teacher.rows})


def _generator(work: Work) -> Result:
    context, task = work.context(work.spec["task"]), find_task(work.spec["task"])
    teacher = read_teacher(work.parents()["teacher"])
    states = Gathering(context, context.q_network(teacher.weights), task).run()
    generator, curve = train_generator(context, states, None, 1)
    return Result({"generator": state_tensors(generator)}, {"generator_curve": curve})


def _consolidate(work: Work) -> Result:
    parents, axes, tasks = work.parents(), work.spec["axes"], work.spec["tasks"]
    consolidation = Consolidation(
        work.context(*tasks),
        tuple(find_task(name) for name in tasks),
        OBJECTIVES[axes["objective"]](),
        RETENTIONS.build(axes["retention"]),
        KNOWLEDGE[axes["knowledge"]](),
        read_teacher(parents["teacher"]) if "teacher" in parents else None,
        parents["generator"].tensors("generator") if "generator" in parents else None,
    )
    done = consolidation.run(read_whole(parents["memory"]) if "memory" in parents else None)
    tensors = {"agent": done.memory.agent, "retained": done.memory.retained, "pictures": done.pictures}
    memory = {"tasks": list(done.memory.tasks), "bytes": done.memory.bytes}
    documents = {"memory": memory, "rows": done.rows, "generator_curve": done.generator_curve}
    return Result({name: group for name, group in tensors.items() if group}, documents)


def _evaluate(work: Work) -> Result:
    # The subject is not among the names: all agents of a seed are tested on the same games.
    context, tasks, rows = work.context(), work.spec["tasks"], Rows()
    subject = work.parents().get("subject")
    network = context.q_network(subject.tensors("agent")) if subject else None
    work.checkpointer.register("rows", rows)
    work.progress.begin("evaluate", len(tasks), "tasks", done=len(rows))
    for name in tasks[len(rows) :]:
        rows.append(evaluate(context, network, find_task(name), 0))
        work.progress.advance(1)
    return Result({}, {"rows": rows})


_KINDS: dict[str, Callable[[Work], Result]] = {
    "short-term": _short_term,
    "short-term generator": _generator,
    "consolidate": _consolidate,
    "evaluate": _evaluate,
    "student": teach_student,
    "fisher": measure_fisher,
    "overlap": find_overlaps,
}


def check_results(tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Weights that are not numbers are never handed on."""
    for name, group in tensors.items():
        for part, tensor in group.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise Diverged(f"{part} of its {name} is not finite; look at the learning rates")


def run_stage(
    stage: Stage,
    store: Store,
    *,
    resources: StageResources,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Runs a stage from its newest checkpoint, if it has one, and writes its artefact. False: another process is at
    work on it."""
    lock = store.stage_lock(stage.digest)
    if not lock.take():
        return False
    checkpointer = None
    try:
        if not store.has(stage.digest):
            checkpointer = Checkpointer(
                CheckpointDir(store.unfinished(stage.digest), stage.digest),
                resources.checkpoint_interval,
                stop,
                progress.remark,
            )
            _run(stage, Work(stage.spec, store, resources, progress, checkpointer))
    finally:
        try:
            if checkpointer:
                checkpointer.close()  # raises what its writer met
        finally:
            lock.release(remove=True)
    return True


def _run(stage: Stage, work: Work) -> None:
    started = time.time()
    use_quick_arithmetic(work.device)
    try:
        with flush_denormals():
            result = _KINDS[stage.kind](work)
        check_results(result.tensors)
    except Diverged as error:
        raise Diverged(f"{stage.title}: {error}") from None
    work.checkpointer.close()
    provenance = Provenance(
        seconds=round(time.time() - started, 2),
        finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        device=str(work.device),
        processor=processor_name(work.device),
        version=VERSION,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        checkpoints=work.checkpointer.cost(),
    )
    work.store.write_stage(stage.manifest, result.tensors, result.documents, provenance)
