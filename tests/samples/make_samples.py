"""Writes samples of what this version stores, to be frozen when it is released: make_samples.py tests/samples/VERSION

half.reaper     a run that was stopped while it learnt its first task, with one checkpoint
expected.json   checksums of the weights that this run ends with
memory.reaper   a long-term memory in half precision
study.reaper    every condition and experiment, without weights: records, manifests and scores

The samples of a released version are never written again; test_samples.py opens those of all versions. Until its
release, remove the folder of a version and write it again whenever a format changes.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from reaper.cli.run import run_plan
from reaper.errors import Stopped
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.find import RunChoice
from reaper.storage.pack import export_run, export_stages, export_weights
from reaper.storage.store import Store
from reaper.study.experiments import plan_experiment
from reaper.study.options import StudyOptions
from reaper.study.plan import plan

OVERRIDES = {
    "optimiser.name": "rmsprop",  # has the smallest state
    "training.num-envs": 4,
    "training.replay-capacity": 100,
    "training.learning-starts": 20,
    "training.exploration-steps": 50,
    "short-term.agent-steps": 120,
    "short-term.best-window": 60,
    "short-term.target-update-interval": 40,
    "long-term.agent-steps": 80,
    "long-term.best-window": 40,
    "gan.steps": 4,
    "gan.batch-size": 8,
    "generator.pseudo-items": 20,
    "rehearsal.capacity": 20,
    "limited-rehearsal.capacity": 6,
    "compressed-rehearsal.capacity": 6,
    "compressed-rehearsal.max-items": 20,
    "fisher.batches": 2,
    "evaluation.episodes": 2,
    "evaluation.interval": 60,
}
CONDITION_NAMES = (
    "RePR", "PR", "DGDMN", "reh", "ewc", "RePR-policy-short", "online-ewc", "reh-limit", "reh-limit-comp",
    "RePR-extend", "RePR-untrained", "single", "no-reh", "RePR-rev", "reh-extend-policy",
)  # fmt: skip
EXPERIMENTS = ("item-quality", "overlap", "importance", "ewc-search")


def options(tasks, **others):
    return StudyOptions(tasks=tasks, device="cpu", workers=1, overrides=OVERRIDES, **others)


def plan_run(**others):
    return plan(["RePR"], options("catch", **others))


def plan_all():
    """Every condition and the experiments that have stages of their own."""
    return [
        plan(CONDITION_NAMES, options("catch,dodge")),
        *(plan_experiment(e, options("catch,dodge")) for e in EXPERIMENTS),
    ]


def execute(study, out):
    return run_plan(study, replace(study.config.options, out=out), lambda stage, event: None)


def stop_at_first_checkpoint(out):
    """Runs until the teacher has its first checkpoint; stopping writes a second, which is kept."""
    study, written = plan_run(checkpoint_every="24"), CheckpointDir.write

    def write_and_stop(self, tensors, others):
        written(self, tensors, others)
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointDir, "write", write_and_stop)
        with pytest.raises(Stopped):
            execute(study, out)
    *older, _ = sorted(out.glob("unfinished/*/[0-9]*"), key=lambda path: int(path.name))
    for path in older:
        shutil.rmtree(path)


def checksums(folder):
    """Title of a stage -> checksums of its tensors, whatever they and their files are called."""
    found = {}
    for path in sorted(folder.glob("stages/*/*.safetensors")):
        title = json.loads((path.parent / "manifest.json").read_text())["title"]
        for tensor in load_file(path).values():
            described = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
            found.setdefault(title, []).append(hashlib.sha256(described + tensor.numpy().tobytes()).hexdigest())
    return {title: sorted(values) for title, values in found.items()}


def main(folder):
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as near:
        stop_at_first_checkpoint(Path(near) / "half")
        export_run(Path(near) / "half", folder / "half.reaper")
        store = execute(plan_run(), Path(near) / "whole")
        export_weights(store.folder, folder / "memory.reaper", RunChoice("RePR"), half=True)
        (folder / "expected.json").write_text(json.dumps(checksums(store.folder), indent=1, sort_keys=True) + "\n")
        for study in plan_all():
            execute(study, Path(near) / "all")
        store = Store.open(Path(near) / "all")
        documents = {d: [name for name in store.stage(d).files if name.endswith(".json")] for d in store.stages()}
        export_stages(store, folder / "study.reaper", documents)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
