"""What training needs of an evaluator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from reaper.context import Context
from reaper.learning.evaluation.episodes import Row
from reaper.state import Rows, State
from reaper.tasks.task import Task


class Evaluator(ABC):
    """Evaluates a network and collects the rows, in order of agent steps and tasks. A checkpoint holds what is
    outstanding."""

    def __init__(self, context: Context, network: torch.nn.Module) -> None:
        self.context, self.network = context, network
        self.rows = Rows()
        self.tasks_done = 0  # of the next evaluation, if that was interrupted

    @abstractmethod
    def evaluate(self, tasks: Sequence[Task], agent_steps: int) -> None:
        """Evaluates the network as it is now."""

    def poll(self) -> None:  # noqa: B027 - optional
        """Collects results that have arrived, without waiting."""

    def wait_if_behind(self) -> None:  # noqa: B027 - optional
        """Waits if too many evaluations are outstanding. Call it when a checkpoint may be saved."""

    def defer(self) -> None:  # noqa: B027 - optional
        """Evaluations may be deferred until `run_deferred`, when CPU cores will be idle."""

    def run_deferred(self) -> None:  # noqa: B027 - optional
        """CPU cores are idle from now on."""

    def finish(self) -> list[Row]:
        """Waits for everything that is outstanding."""
        return self.rows

    def close(self) -> None:  # noqa: B027 - optional
        """Abandons what is outstanding."""

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        mean = sum(row["scores"]) / len(row["scores"])
        self.context.progress.log_curves("evaluation", row["agent_steps"], {row["task"]: mean})

    def state(self) -> State:
        return {"tasks_done": self.tasks_done, "rows": self.rows.state()}

    def restore(self, state: State) -> None:
        self.tasks_done = state["tasks_done"]
        self.rows.restore(state["rows"])
