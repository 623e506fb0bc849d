"""The table of stage kinds, and how a stage is run, whatever its kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from reaper.compute.compilation import flush_denormals, prepare_torch
from reaper.errors import Diverged
from reaper.progress import Progress
from reaper.storage.checkpoints import CheckpointDir, Checkpointer
from reaper.storage.exported_memory import INITIAL_MEMORY
from reaper.storage.manifests import Provenance
from reaper.storage.store import Store
from reaper.study.kinds.base import Load, Stage, StageKind
from reaper.study.kinds.consolidate import CONSOLIDATE
from reaper.study.kinds.distil import DISTIL
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.external_teacher import EXTERNAL, TEACHER_WEIGHTS
from reaper.study.kinds.fisher import FISHER, OVERLAP
from reaper.study.kinds.generator import GENERATOR
from reaper.study.kinds.short_term import SHORT_TERM
from reaper.study.kinds.student import STUDENT
from reaper.study.stage_run import StageResources, StageRun, settings_of
from reaper.system import processor_name
from reaper.version import VERSION

_TABLE = (SHORT_TERM, TEACHER_WEIGHTS, EXTERNAL, DISTIL, GENERATOR, CONSOLIDATE, EVALUATE, STUDENT, FISHER, OVERLAP)
KINDS: Mapping[str, StageKind] = MappingProxyType({kind.name: kind for kind in _TABLE})


def load_of(stage: Stage) -> Load:
    """How much work a stage is; a memory from elsewhere is none."""
    return Load() if stage.kind == INITIAL_MEMORY else KINDS[stage.kind].load(stage.spec, settings_of(stage.spec))


def run_stage(
    stage: Stage,
    store: Store,
    *,
    resources: StageResources,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Runs a stage from its newest checkpoint, if it has one, and writes its artefact. False: another process is
    already running it."""
    lock = store.stage_lock(stage.digest)
    if not lock.take():
        return False
    checkpointer = None
    try:
        if not store.has(stage.digest):
            folder = CheckpointDir(store.unfinished(stage.digest), stage.digest)
            checkpointer = Checkpointer(folder, resources.checkpoint_interval, stop, progress.remark)
            run = StageRun(
                spec=stage.spec, store=store, resources=resources, progress=progress, checkpointer=checkpointer
            )
            _run(stage, run)
    finally:
        try:
            if checkpointer:
                checkpointer.close()  # raises any error of its writing thread
        finally:
            lock.release(remove=True)
    return True


def _run(stage: Stage, run: StageRun) -> None:
    started = time.time()
    prepare_torch(run.device)
    try:
        with flush_denormals():
            result = KINDS[stage.kind].run(run)
        check_results(result.tensors)
    except Diverged as error:
        raise Diverged(f"{stage.title}: {error}") from None
    run.checkpointer.close()
    provenance = Provenance(
        seconds=round(time.time() - started, 2),
        finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        device=str(run.device),
        processor=processor_name(run.device),
        version=VERSION,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        checkpoints=run.checkpointer.cost(),
    )
    run.store.write_stage(stage.manifest, result.tensors, result.documents, provenance)


def check_results(tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Weights that are not finite are never passed on."""
    for name, group in tensors.items():
        for part, tensor in group.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise Diverged(f"{part} of its {name} is not finite; check the learning rates")
