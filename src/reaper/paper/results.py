"""The results that the paper publishes, as printed. Only the ratio that its text quotes is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class Score(NamedTuple):
    """A mean over episodes and its standard deviation."""

    mean: float
    deviation: float


class Published(NamedTuple):
    """One row of Table score-table."""

    scores: tuple[Score, ...]  # one per task, in the order of TASKS
    memory_gigabytes: float


ROAD_RUNNER, BOXING, JAMES_BOND = "ALE/RoadRunner-v5", "ALE/Boxing-v5", "ALE/Jamesbond-v5"
TASKS = (ROAD_RUNNER, BOXING, JAMES_BOND)  # in the order of the main experiment
TITLES = ("Road Runner", "Boxing", "James Bond")


def _row(road: tuple[int, int], boxing: tuple[int, int], james: tuple[int, int], gigabytes: float) -> Published:
    return Published((Score(*road), Score(*boxing), Score(*james)), gigabytes)


# Table score-table: three seeds, 30 episodes each.
SCORES: Mapping[str, Published] = MappingProxyType(
    {
        "no-reh": _row((0, 0), (-13, 9), (619, 165), 0.007),
        "reh": _row((26486, 6245), (85, 10), (548, 156), 7.063),
        "RePR": _row((22042, 5375), (82, 12), (468, 155), 0.023),
        "ewc": _row((581, 525), (-2, 10), (162, 97), 0.042),
        "online-ewc": _row((130, 159), (-10, 10), (381, 165), 0.014),
        "PR": _row((21804, 6042), (33, 17), (342, 99), 0.023),
        "DGDMN": _row((22841, 4211), (36, 24), (184, 108), 0.023),
        "reh-limit": _row((151, 329), (29, 26), (598, 246), 0.024),
        "reh-limit-comp": _row((16348, 6980), (80, 14), (511, 178), 0.024),
    }
)

# The last three rows of the same table: a DQN trained on that task alone.
SINGLE: Mapping[str, Score] = MappingProxyType(
    {ROAD_RUNNER: Score(29463, 7864), BOXING: Score(88, 8), JAMES_BOND: Score(645, 161)}
)

# The text next to that table.
HUMAN: Mapping[str, float] = MappingProxyType({ROAD_RUNNER: 7845, BOXING: 4, JAMES_BOND: 407})
# A footnote to the same text: the memory of a condition if its items were compressed.
COMPRESSED_GIGABYTES: Mapping[str, float] = MappingProxyType({"reh": 0.250})
# Table exp-conds: the real items that a condition stores.
STORED_ITEMS: Mapping[str, int] = MappingProxyType({"reh-limit": 600, "reh-limit-comp": 17_000})
QUOTED_RATIOS: Mapping[str, float] = MappingProxyType({"reh": 0.90, "RePR": 0.80})

# Table scratch: a new student distilled from real or generated items; one seed. None: not one of its tasks.
SCRATCH: Mapping[str, tuple[Score | None, Score | None, Score | None]] = MappingProxyType(
    {
        "real_road": (Score(27133, 5772), None, None),
        "gan_road": (Score(15343, 5885), None, None),
        "real_boxing": (None, Score(84, 17), None),
        "gan_boxing": (None, Score(70, 21), None),
        "real_james": (None, None, Score(482, 139)),
        "gan_james": (None, None, Score(247, 98)),
        "real_3T": (Score(23660, 5112), Score(79, 20), Score(342, 178)),
        "gan_3T": (Score(747, 739), Score(-6, 12), Score(142, 100)),
    }
)

# Table lscale: condition -> alpha -> scores on Road Runner and Boxing, after these two alone; one seed.
IMPORTANCE: Mapping[str, Mapping[float, tuple[Score, Score]]] = MappingProxyType(
    {
        "PR": MappingProxyType(
            {
                0.65: (Score(30700, 6463), Score(32, 17)),
                0.75: (Score(30630, 5420), Score(32, 21)),
                0.85: (Score(26310, 8257), Score(46, 14)),
                0.95: (Score(12090, 5894), Score(80, 10)),
            }
        ),
        "RePR": MappingProxyType(
            {
                0.65: (Score(28543, 4699), Score(84, 9)),
                0.75: (Score(23603, 6124), Score(85, 8)),
                0.85: (Score(13977, 8814), Score(85, 10)),
                0.95: (Score(7617, 5696), Score(83, 10)),
            }
        ),
    }
)

# The main text also runs RePR with these on all three tasks; 0.55 is the main experiment's.
MAIN_ALPHAS = (0.35, 0.55, 0.75)

# The grids of the EWC appendix, and their best points, in bold there.
EWC_LAMBDAS = (50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)
ONLINE_EWC_LAMBDAS = (25.0, 75.0, 125.0, 175.0)
ONLINE_EWC_GAMMAS = (0.95, 0.99)
BEST_EWC: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"ewc": {"lambda": 300.0}, "online-ewc": {"lambda": 75.0, "gamma": 0.99}}
)

# Table F-over: Fisher overlap of each pair of tasks.
FISHER_OVERLAP: Mapping[str, Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        name: MappingProxyType(
            {(ROAD_RUNNER, BOXING): first, (ROAD_RUNNER, JAMES_BOND): second, (BOXING, JAMES_BOND): third}
        )
        for name, first, second, third in (("RePR", 0.691, 0.233, 0.198), ("RePR-rev", 0.753, 0.192, 0.110))
    }
)


def average_ratio(condition: str) -> float:
    """A condition's score divided by that of a DQN trained on the task alone, averaged over the tasks."""
    ratios = [score.mean / SINGLE[task].mean for task, score in zip(TASKS, SCORES[condition].scores, strict=True)]
    return sum(ratios) / len(ratios)


def published_scores(condition: str, tasks: Sequence[str], alpha: float) -> tuple[Score, ...] | None:
    """The paper's scores of this condition after these tasks in this order; None where it prints none.

    `alpha` matters only after Road Runner and Boxing, where Table lscale varies it.
    """
    if tuple(tasks) == TASKS and condition in SCORES:
        return SCORES[condition].scores
    if tuple(tasks) == TASKS[:2]:
        return IMPORTANCE.get(condition, {}).get(alpha)
    return None
