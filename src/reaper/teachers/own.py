"""Agents of ours as teachers: an output folder, a stage's folder, a pack, or `pretrained:NAME`."""

from __future__ import annotations

from typing import Any

from reaper.config.overrides import check
from reaper.config.sparse_json import from_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.storage.checksummed_dir import MANIFEST
from reaper.storage.find import find_memory
from reaper.storage.store import Artefact
from reaper.teachers.files import TeacherFile, Tensors, checked_weights
from reaper.zoo import locate

TEACHER_KIND = "short-term"  # of stages that end with a teacher of ours
GROUPS = ("observation", "network", "scales")  # of settings that a network depends on


def read_own(source: str) -> TeacherFile:
    """The long-term agent, or the short-term DQN, at a path."""
    path = locate(source)
    if not path.exists():
        raise UserError(
            f"{source} is no file, folder or pretrained agent; a teacher from elsewhere is sb3:FILE.zip, ..."
        )
    if (path / MANIFEST).is_file() and (stage := _stage(path)) is not None:
        return _described(source, stage.tensors("agent"), stage.spec, "values")
    found = find_memory(path)
    axes = found.spec.get("axes")
    is_policy = isinstance(axes, dict) and axes.get("knowledge") == "policy"
    return _described(source, found.memory.agent, found.spec, "logits" if is_policy else "values")


def _stage(path: Any) -> Artefact | None:
    """A finished stage of short-term training; None where the folder is something else."""
    try:
        artefact = Artefact(path)
        return artefact if artefact.manifest.kind == TEACHER_KIND else None
    except UserError:
        return None  # find_memory says what it is


def _described(source: str, weights: Tensors, spec: Any, outputs: str) -> TeacherFile:
    num_actions, given = spec.get("num_actions"), spec.get("settings")
    if type(num_actions) is not int or num_actions < 1 or not isinstance(given, dict):
        raise UserError(f"{source} does not state its number of actions and its settings")
    settings = {name: values for name, values in given.items() if name in GROUPS}
    network = {"family": "reaper", "outputs": outputs, "num_actions": num_actions, "settings": settings}
    own_context(network).q_network(weights)  # refuses weights of another network
    return TeacherFile(source, network, checked_weights(weights, source))


def own_context(network: Any) -> Context:
    """A context in which the network of a description can be built."""
    settings = from_json(network["settings"])
    check(settings)
    return Context(settings, network["num_actions"], seed=0, names=("teacher",))
