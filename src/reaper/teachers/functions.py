"""Python functions as teachers: `module:function`, or any callable in `reaper.consolidate`.

The function gets a NumPy array: a batch of vectors as the environment emits them (N, features), or of stacked frames as
the sequence's agents see them (N, frames, height, width). It returns one number per action of the task
(N, num_actions): Q-values, or logits if it has an attribute `outputs = "logits"`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from reaper.errors import UserError
from reaper.tasks.observation import ObservationSpec
from reaper.teachers.files import TeacherFile

PROBES = 64  # states whose answers identify a function
OUTPUTS = ("values", "logits")

_GIVEN: dict[str, Callable[..., Any]] = {}  # callables that have no importable name, by the name they go by here


def find_function(name: str) -> Callable[..., Any]:
    """The function behind `module:function`."""
    if name in _GIVEN:
        return _GIVEN[name]
    module, _, path = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # a script's own folder is on the path, that of a command is not
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise UserError(f"{name}: module {module} cannot be imported ({str(error)[:120]})") from None
    except AttributeError:
        raise UserError(f"{name}: module {module} has no {path}") from None
    if not callable(found):
        raise UserError(f"{name} is no function but {type(found).__name__}")
    return found


def name_of(function: Callable[..., Any]) -> str:
    """The importable name of a callable, or one that holds in this process only."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module and module != "__main__" and path and "<" not in path:
        return f"{module}:{path}"
    name = f"{type(function).__name__}@{id(function):x}"
    _GIVEN[name] = function
    return name


def is_importable(name: str) -> bool:
    """Whether another process can find the function, too."""
    return name not in _GIVEN


def probe_states(observation: ObservationSpec) -> np.ndarray:
    """The same states in every process: uniform bytes for images, normal numbers for vectors."""
    rng = np.random.default_rng(0)
    shape = (PROBES, *observation.shape)
    if observation.dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.standard_normal(shape).astype(observation.dtype)


def read_function(source: str, function: Callable[..., Any], observation: ObservationSpec) -> TeacherFile:
    """Calls the function once, and checks what it returns. Its answers stand for its weights: they identify it."""
    outputs = getattr(function, "outputs", "values")
    if outputs not in OUTPUTS:
        raise UserError(f"{source}: its attribute `outputs` is values or logits, not {str(outputs)[:40]!r}")
    answers = FunctionNetwork(source, function)(torch.from_numpy(probe_states(observation)))
    network = {"family": "function", "outputs": outputs, "num_actions": answers.shape[1], "function": source}
    return TeacherFile(source, network, {"answers": answers})


class FunctionNetwork(nn.Module):
    """A function as a network: states (N, *shape) -> outputs (N, num_actions), checked."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__()
        self.name, self.function = name, function

    @torch.compiler.disable
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        try:
            returned = self.function(states.cpu().numpy())
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{self.name} failed: {type(error).__name__}: {str(error)[:200]}") from None
        if isinstance(returned, torch.Tensor):
            returned = returned.detach().cpu().numpy()
        try:
            answers = np.array(returned, dtype=np.float32)
        except (TypeError, ValueError):
            raise UserError(f"{self.name} returned {type(returned).__name__}, which is no array of numbers") from None
        if answers.ndim != 2 or len(answers) != len(states) or answers.shape[1] < 1:
            wanted = f"({len(states)}, number of actions)"
            raise UserError(f"{self.name} returned an array of shape {answers.shape}, not {wanted}")
        if not np.isfinite(answers).all():
            raise UserError(f"{self.name} returned numbers that are not finite")
        return torch.from_numpy(answers).to(states.device)
