"""The metrics of Continual World (Wołczyk et al., 2021), which many papers on continual reinforcement learning report.

All use normalised scores in place of success rates, and count only tasks for which these are defined. Tables, the
page and the documentation take names and definitions from `CONTINUAL_WORLD`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reaper.results.runs import Rows, RunResult

MAX_SINGLE_AREA = 0.99  # above, the single-task DQN leaves no room for transfer, and the quotient explodes


@dataclass(frozen=True)
class RunMetric:
    """The mean over tasks of something that depends on a whole run, not only on its score matrix."""

    name: str  # a table's heading
    definition: str  # a sentence without a full stop, as it follows the name
    formula: str  # R[k, j] as in metrics.py
    by_task: Callable[[RunResult], np.ndarray]  # NaN for tasks that do not count

    def __call__(self, run: RunResult) -> float:
        """NaN where no task counts."""
        values = self.by_task(run)
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")

    def counted(self, run: RunResult) -> int:
        """How many tasks the mean counts."""
        return int((~np.isnan(self.by_task(run))).sum())


def performance(run: RunResult) -> np.ndarray:
    return run.matrix[-1]


def forgetting(run: RunResult) -> np.ndarray:
    """Tasks that a run knew before it began count as learnt at its first known row."""
    learnt = np.array([run.matrix[max(j, run.first), j] for j in range(len(run.tasks))])
    return learnt - run.matrix[-1]


def forward_transfer(run: RunResult) -> np.ndarray:
    """NaN also for tasks without a window in this run, and where the single-task DQN leaves no room for transfer."""
    random, before = run.random.mean(axis=1), run.scores.mean(axis=2)
    starts = np.array([random[0], *(before[j - 1, j] for j in range(1, len(run.tasks)))])
    area = run.normalise(areas(run.tasks, [phase.rows for phase in run.phases], starts))
    single = run.normalise(areas(run.tasks, run.teacher_rows, random))
    room = np.where(single <= MAX_SINGLE_AREA, 1 - single, np.nan)
    return (area - single) / room


def areas(tasks: Sequence[str], windows: Sequence[Rows], starts: np.ndarray) -> np.ndarray:
    """The mean score on each task over its own window, by the trapezoidal rule; NaN where it was not evaluated there.

    `starts` are the scores at the beginning of the windows, where training evaluates nothing.
    """
    found = np.full(len(tasks), np.nan)
    for j, (task, rows) in enumerate(zip(tasks, windows, strict=False)):
        points = {row["agent_steps"]: float(np.mean(row["scores"])) for row in rows if row["task"] == task}
        steps, scores = zip(*sorted({0: float(starts[j]), **points}.items()), strict=True)
        if len(steps) > 1:
            found[j] = np.diff(steps) @ (np.array(scores[1:]) + scores[:-1]) / (2 * steps[-1])
    return found


_TABLE = (
    RunMetric(
        "performance",
        "the mean over all tasks after the last one, which is the average of the other tables",
        "mean over j of R[N-1, j]",
        performance,
    ),
    RunMetric(
        "forgetting",
        "the score at the end of a task's own training minus that at the end of the sequence, averaged over all tasks; "
        "the last task counts as 0",
        "mean over j of R[j, j] - R[N-1, j]",
        forgetting,
    ),
    RunMetric(
        "forward transfer",
        "how much of the room above the learning curve of the single-task DQN the agent's own curve fills, averaged "
        "over all tasks; 0 is no faster than the single-task DQN, 1 is its final level from the start",
        "mean over j of (AUC_j - AUC_single_j) / (1 - AUC_single_j)",
        forward_transfer,
    ),
)
CONTINUAL_WORLD = {metric.name: metric for metric in _TABLE}

WINDOWS = (
    "AUC is the area under the normalised scores on a task over its own window, divided by the window's length, by the "
    "trapezoidal rule: the window is the consolidation in which the long-term agent learns the task, without the "
    "training of its teacher, and begins at the agent's score just before. AUC_single is that of the single-task DQN "
    "over its whole training, which begins at random play. The first task's agent is its single-task DQN, so its "
    "forward transfer is 0. A task is left out where a window has no evaluation, or where AUC_single is above "
    f"{MAX_SINGLE_AREA:g}. With few evaluations in a window an area is coarse."
)
