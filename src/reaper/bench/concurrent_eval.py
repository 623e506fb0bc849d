"""How evaluations in a separate process and the work alongside them slow each other down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from reaper.bench.measurement import Measurement
from reaper.context import Context
from reaper.learning.evaluation.episodes import Pace
from reaper.learning.evaluation.process import EvalProcess
from reaper.tasks.task import Task

EPISODE_STEPS = 1_800  # assumed agent steps of an episode that is too long to finish here: two minutes of Atari

# The speed of some work: for a while, or until the given function returns True.
WorkRate = Callable[[Callable[[], bool] | None], float]


@dataclass(frozen=True)
class ConcurrentWork:
    """Work that evaluations run alongside, and the names of its measurements."""

    rate: WorkRate
    unit: str
    alone: str  # its name without evaluations
    during_evaluation: str  # its name with them
    evaluation: str  # the name of the evaluations
    num_evaluations: int = 1  # how many run at once


def measure_concurrent_eval(
    context: Context, work: ConcurrentWork, task: Task, seconds: float, *, repeats: int
) -> tuple[Measurement, Measurement, float]:
    """The speed of the work during evaluations, the speed of these, and the seconds of a whole evaluation. The work
    runs with and without evaluations in turn."""
    episodes, alone, during, paces = context.settings.evaluation.episodes, [], [], []
    with closing(EvalProcess(context)) as evaluator:
        evaluator.measure(task.name, 0.0, work.num_evaluations)
        evaluator.receive()  # it has started
        for _ in range(repeats):
            alone.append(work.rate(None))
            evaluator.measure(task.name, seconds, work.num_evaluations)
            during.append(work.rate(evaluator.has_reply))
            paces.append(Pace(**evaluator.receive()))
    shares = tuple(slowed / full for slowed, full in zip(during, alone, strict=True))
    steps_per_second = tuple(episodes * pace.steps / pace.seconds for pace in paces)
    evaluation = Measurement(work.evaluation, task.name, "agent steps", steps_per_second)
    length = paces[-1].steps / work.num_evaluations if paces[-1].whole else EPISODE_STEPS
    whole_evaluation = paces[-1].startup + episodes * length / evaluation.rate
    slowed_work = Measurement(work.during_evaluation, task.name, work.unit, tuple(during), shares, work.alone)
    return slowed_work, evaluation, whole_evaluation
