"""An agent as model hubs hold it: `config.json`, `model.safetensors`, and a README for people (export/card.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save

from reaper.errors import UserError
from reaper.memory.long_term import LongTermMemory
from reaper.storage.files import read_json, read_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
LIBRARY = "reaper"
MODEL_FORMAT = 1


def is_model_folder(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def write_model(folder: Path, memory: LongTermMemory, spec: Mapping[str, Any], **more: Any) -> None:
    """The agent's weights, and what is needed to build its network. What its retention method keeps is left out."""
    config = {
        "library_name": LIBRARY,
        "format": MODEL_FORMAT,
        "tasks": list(memory.tasks),
        "num_actions": spec["num_actions"],
        "settings": spec["settings"],
        "axes": spec.get("axes"),
        **more,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
    (folder / WEIGHTS).write_bytes(save(memory.agent))


def read_model(folder: Path) -> tuple[LongTermMemory, dict[str, Any]]:
    """The agent, and its config in place of the spec of a stage."""
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("library_name") != LIBRARY:
        raise UserError(f"{folder} is no agent of reaper's: its {CONFIG} names another library")
    if config.get("format") != MODEL_FORMAT:
        raise UserError(f"{folder} was written by another version of reaper (format {str(config.get('format'))[:20]})")
    tasks = config.get("tasks")
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, str) for task in tasks):
        raise UserError(f"{folder / CONFIG} names no tasks")
    return LongTermMemory(read_tensors(folder / WEIGHTS), tuple(tasks)), config
