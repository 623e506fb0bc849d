"""What tests cost whatever runs beside them, and how quickly they are played there: for `reaper bench`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from reaper.bench.prediction import GAME, Figure
from reaper.context import Context
from reaper.learning.evaluation.episodes import Pace
from reaper.learning.evaluation.worker import EvalProcess
from reaper.tasks.task import Task

Rate = Callable[..., float]  # something's speed, for a while or until a given function says that it is enough


def with_tests(
    context: Context,
    rate: Rate,
    task: Task,
    kinds: tuple[str, str, str, str],
    seconds: float,
    repeats: int,
    side_by_side: int = 1,
) -> tuple[Figure, Figure, float]:
    """Something with tests beside it and without, in turn; the tests' speed; and the seconds of a whole one. `kinds`:
    the names of the one and the other, what the first is a share of, and its unit."""
    games, alone, rates, paces = context.settings.evaluation.episodes, [], [], []
    with closing(EvalProcess(context)) as evaluator:
        evaluator.measure(task.name, 0.0, side_by_side)
        evaluator.receive()  # it has started
        for _ in range(repeats):
            alone.append(rate())
            evaluator.measure(task.name, seconds, side_by_side)
            rates.append(rate(evaluator.answered))
            paces.append(Pace(**evaluator.receive()))
    shares = tuple(beside / without for beside, without in zip(rates, alone, strict=True))
    what, test, of, unit = kinds
    tests = Figure(test, task.name, "frames", tuple(games * p.steps / p.seconds for p in paces))
    length = paces[-1].steps / side_by_side if paces[-1].whole else GAME
    whole = paces[-1].beginning + games * length / tests.rate
    return Figure(what, task.name, unit, tuple(rates), shares, of), tests, whole
