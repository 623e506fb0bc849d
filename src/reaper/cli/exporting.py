"""`reaper export --what onnx`, `torch` and `card`: one agent, for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reaper.agent import Agent
from reaper.errors import UserError
from reaper.export.card import write_card
from reaper.export.onnx_file import write_onnx
from reaper.export.plain_network import plain_network
from reaper.export.torch_module import write_torch
from reaper.learning.found_memory import check_memory
from reaper.results.runs import read_run
from reaper.storage.files import check_output_file
from reaper.storage.find import FoundMemory, RunChoice, choose_memory, find_memory
from reaper.storage.store import Store
from reaper.tasks.sequence import find_task
from reaper.zoo import locate


def export_agent(arguments: argparse.Namespace, choice: RunChoice) -> str:
    """Writes the file or folder, and returns what it holds."""
    file: Path = arguments.file
    _check_target(file, arguments.what, arguments.overwrite)
    source = locate(str(arguments.out))
    found = find_memory(source, choice, arguments.after_task)
    agent = Agent(found.memory, check_memory(found))
    if arguments.what == "onnx":
        write_onnx(file, plain_network(agent))
        return "an ONNX graph"
    if arguments.what == "torch":
        write_torch(file, plain_network(agent), {task: find_task(task).num_actions for task in agent.tasks})
        return "a torch module (agent.py) and its weights (agent.pt)"
    scores, command = _known_scores(source, choice, arguments.after_task, found)
    write_card(file, agent, spec=found.spec, scores=scores, command=command)
    return "README.md, config.json, model.safetensors, results.json and, where it can be rendered, a video"


def _check_target(file: Path, what: str, overwrite: bool) -> None:
    if what == "onnx":
        check_output_file(file)
        if file.exists() and not overwrite:
            raise UserError(f"{file} exists; choose another name or give --overwrite")
    elif file.exists():
        raise UserError(f"{file} exists; --what {what} writes a new folder")


def _known_scores(
    source: Path, choice: RunChoice, after_task: int | None, found: FoundMemory
) -> tuple[Mapping[str, np.ndarray], str]:
    """The evaluation of this agent on its tasks, and the command of its run; none where it comes without its run."""
    if not (source / "reaper.json").is_file():
        return {}, ""
    store = Store.open(source)
    record, digest = choose_memory(store, choice, after_task)
    result: Any = read_run(store, record)
    scores = result.scores[record.memories.index(digest)]
    known = zip(result.tasks, scores, strict=True)
    kept = {task: values for task, values in known if task in found.memory.tasks and not np.isnan(values).any()}
    return kept, record.command
