"""reaper: continual reinforcement learning. One agent learns one task after another and forgets none of them.

import reaper

results = reaper.run(["RePR", "no-reh"], tasks="arcade-3", out="runs/mine")
agent = reaper.load("runs/mine", condition="RePR")
action, _ = agent.predict(observation)
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reaper.errors import UserError
from reaper.version import VERSION as __version__

if TYPE_CHECKING:
    from reaper.agent import Agent, load
    from reaper.engines.base import Engine, register_engine
    from reaper.generators import FittedGenerator, Generator, GeneratorTraining, register_generator
    from reaper.results.runs import RunResult
    from reaper.retention import Recall, Remembered, Retention, register_retention
    from reaper.study.conditions import CONDITIONS, Condition, register_condition
    from reaper.study.options import StudyOptions
    from reaper.tasks.observation import ObservationSpec
    from reaper.tasks.sequence import register_task
    from reaper.tasks.sequence_env import SequenceEnv
    from reaper.tasks.task import EnvOptions, Step, Task, VectorTask

# Where the public names are defined. They are imported when they are first used, so that `reaper --help`, which imports
# this package, does not import torch.
_EXPORTS = {
    "CONDITIONS": "reaper.study.conditions",
    "Agent": "reaper.agent",
    "Condition": "reaper.study.conditions",
    "Engine": "reaper.engines.base",
    "EnvOptions": "reaper.tasks.task",
    "FittedGenerator": "reaper.generators",
    "Generator": "reaper.generators",
    "GeneratorTraining": "reaper.generators",
    "ObservationSpec": "reaper.tasks.observation",
    "Recall": "reaper.retention",
    "Remembered": "reaper.retention",
    "Retention": "reaper.retention",
    "RunResult": "reaper.results.runs",
    "Step": "reaper.tasks.task",
    "Task": "reaper.tasks.task",
    "VectorTask": "reaper.tasks.task",
    "load": "reaper.agent",
    "register_condition": "reaper.study.conditions",
    "register_engine": "reaper.engines.base",
    "register_generator": "reaper.generators",
    "register_retention": "reaper.retention",
    "register_task": "reaper.tasks.sequence",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'reaper' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def run(conditions: Sequence[str] | str, **options: Any) -> list[RunResult]:
    """Runs conditions on a sequence of tasks, as `reaper run` does, and returns their results.

    The options are the fields of `reaper.study.options.StudyOptions`, which are also the flags of `reaper run`:
    `reaper.run("RePR", tasks="arcade-3", seeds=(0, 1), out="runs/mine", workers=2)`.

    Stages that are finished in `out` are not run again, and an interrupted one resumes from its last checkpoint. With
    more than one worker, call this under `if __name__ == "__main__":`, as everything that starts processes.
    """
    from reaper.study.options import StudyOptions

    names = [conditions] if isinstance(conditions, str) else list(conditions)
    return _run(names, StudyOptions.of(**options))


def consolidate(
    teachers: Mapping[str, Any], conditions: Sequence[str] | str = "RePR", **options: Any
) -> list[RunResult]:
    """Teaches one network what agents trained elsewhere know, as `reaper consolidate` does, and returns the results.

    `teachers` maps a task to the source of its teacher: `sb3:FILE.zip`, `cleanrl:ARCHITECTURE:FILE`, a run or a pack of
    ours, `pretrained:NAME`, `module:function`, or a Python callable. Tasks are learnt in this order, or in that of
    `tasks`, where a task without a teacher is learnt here. The options are those of `run`.
    """
    from reaper.study.options import StudyOptions

    names = [conditions] if isinstance(conditions, str) else list(conditions)
    if not teachers:
        raise UserError("consolidate needs at least one teacher: {task: source}")
    return _run(names, StudyOptions.of(teachers=dict(teachers), **options))


def make_env(tasks: str, steps_per_task: int | None = None, preset: str | None = None, **overrides: Any) -> SequenceEnv:
    """A sequence of tasks as one Gymnasium environment, including its task switches, which `info` reports.

    Each task lasts `steps_per_task` steps (by default as long as its short-term training would), and its last episode
    is truncated. `overrides` are settings by dotted name: `**{"observation.frame-stack": 4}`.
    """
    from reaper.study.plan import resolve_settings
    from reaper.tasks.sequence import find_sequence
    from reaper.tasks.sequence_env import SequenceEnv

    sequence = find_sequence(tasks)
    _, settings = resolve_settings(sequence, preset=preset, overrides=overrides)
    steps = settings.short_term.agent_steps if steps_per_task is None else steps_per_task
    if steps < 1:
        raise UserError(f"steps_per_task must be at least 1, not {steps}")
    return SequenceEnv(sequence, sequence.complete(settings), steps)


def _run(names: list[str], chosen: StudyOptions) -> list[RunResult]:
    from reaper.cli.run import run_with_display
    from reaper.results.runs import read_results
    from reaper.study.plan import plan

    study = plan(names, chosen)
    store = run_with_display(study, chosen)
    runs = {chain.name for chain in study.chains}
    return [result for result in read_results(store) if result.record.name in runs]


__all__ = [
    "CONDITIONS",
    "Agent",
    "Condition",
    "Engine",
    "EnvOptions",
    "FittedGenerator",
    "Generator",
    "GeneratorTraining",
    "ObservationSpec",
    "Recall",
    "Remembered",
    "Retention",
    "RunResult",
    "Step",
    "Task",
    "UserError",
    "VectorTask",
    "__version__",
    "consolidate",
    "load",
    "make_env",
    "register_condition",
    "register_engine",
    "register_generator",
    "register_retention",
    "register_task",
    "run",
]
