"""reaper: one agent learns one task after another and forgets none of them.

import reaper

results = reaper.run(["RePR", "no-reh"], tasks="arcade-3", out="runs/mine")
agent = reaper.load("runs/mine", condition="RePR")
action, _ = agent.predict(observation)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from reaper.agent import Agent, load
from reaper.cli.display import show_progress
from reaper.errors import UserError
from reaper.results.runs import RunResult, read_results
from reaper.retention import Recall, Remembered, Retention, register_retention
from reaper.study.conditions import CONDITIONS, Condition, register_condition
from reaper.study.plan import execute, plan
from reaper.tasks.sequence import register_task
from reaper.tasks.task import Step, Task, VectorTask
from reaper.version import VERSION as __version__


def run(
    conditions: Sequence[str] | str,
    tasks: str = "arcade-3",
    seeds: Sequence[int] = (0,),
    fraction: float = 1.0,
    out: str | Path = "runs/latest",
    device: str = "auto",
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    workers: int | None = None,
    quiet: bool = False,
    checkpoint_every: str = "10m",
    share: bool = False,
    engine: str = "local",
    address: str | None = None,
    store: str | None = None,
    gpus_per_stage: float | None = None,
    tensorboard: bool = True,
    wandb: bool = False,
    continue_from: str | Path | None = None,
    from_condition: str | None = None,
    from_seed: int | None = None,
) -> list[RunResult]:
    """Runs conditions on a sequence of tasks, as `reaper run` does, and returns what they scored.

    Stages that are already in `out` are not run again, and one that was interrupted goes on from its last checkpoint.
    With more than one worker, call this from under
    `if __name__ == "__main__":`, as for everything that starts processes. With `engine="ray"` stages run on a Ray
    cluster (docs/guides/clusters.md). `tensorboard` draws curves in `out`, `wandb` sends them there
    (docs/guides/monitoring.md). With `continue_from`, a long-term memory from elsewhere learns the tasks after those it knows (docs/guides/zoo.md).
    """
    names = [conditions] if isinstance(conditions, str) else list(conditions)
    study = plan(
        names,
        tasks,
        seeds,
        fraction,
        device,
        scale,
        overrides,
        workers,
        checkpoint_every,
        engine,
        address,
        store,
        gpus_per_stage,
        continue_from,
        from_condition,
        from_seed,
    )
    with show_progress(len(study.stages), Console(stderr=True), quiet) as listen:
        finished = execute(study, out, listen, share, tensorboard, wandb)
    wanted = {chain.name for chain in study.chains}
    return [result for result in read_results(finished) if result.record["name"] in wanted]


__all__ = [
    "CONDITIONS",
    "Agent",
    "Condition",
    "Recall",
    "Remembered",
    "Retention",
    "RunResult",
    "Step",
    "Task",
    "UserError",
    "VectorTask",
    "__version__",
    "load",
    "register_condition",
    "register_retention",
    "register_task",
    "run",
]
