"""The paper's experiments: each is a set of conditions, and an analysis that may add stages of its own.

Experiments share stages: what two of them have in common (teachers above all) has the same digest, so a second
experiment in the same output folder runs only what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reaper.errors import UserError, unknown
from reaper.paper.results import EWC_LAMBDAS, IMPORTANCE, MAIN_ALPHAS, ONLINE_EWC_GAMMAS, ONLINE_EWC_LAMBDAS
from reaper.storage.records import AnalysisStageEntry, ExperimentRecord
from reaper.study.analysis_stages import AnalysisStage, no_stages, overlaps, students
from reaper.study.chains import Chain
from reaper.study.conditions import CONDITIONS, MAIN, Condition
from reaper.study.options import DEFAULT_TASKS, StudyOptions
from reaper.study.plan import Plan, StudyConfig, resolve
from reaper.study.user_values import sweep_notices
from reaper.tasks.sequence import Sequence


class TooFewTasks(UserError):
    """The sequence is too short for an experiment."""


AddStages = Callable[[list[Chain]], list[AnalysisStage]]  # the chains of one seed -> the stages of the analysis


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    about: str
    shows: str  # where in the paper
    analysis: str  # how its results are read (report/experiment_sections.py)
    conditions: tuple[Condition, ...]
    two_task_conditions: tuple[Condition, ...] = ()  # these learn only the first two tasks
    analysis_stages: AddStages = no_stages
    tasks: str = DEFAULT_TASKS
    min_tasks: int = 2


def _rows(*names: str) -> tuple[Condition, ...]:
    return tuple(CONDITIONS[name] for name in names)


def _alphas(condition: str, alphas: tuple[float, ...]) -> tuple[Condition, ...]:
    labels = {"long-term.alpha": "alpha"}
    return tuple(CONDITIONS[condition].at({"long-term.alpha": alpha}, labels) for alpha in alphas)


def _grids() -> tuple[Condition, ...]:
    """The two grids of the EWC appendix."""
    ewc = [CONDITIONS["ewc"].at({"ewc.ewc-lambda": s}, {"ewc.ewc-lambda": "lambda"}) for s in EWC_LAMBDAS]
    labels = {"online-ewc.ewc-lambda": "lambda", "online-ewc.gamma": "gamma"}
    online = [
        CONDITIONS["online-ewc"].at({"online-ewc.ewc-lambda": s, "online-ewc.gamma": d}, labels)
        for s in ONLINE_EWC_LAMBDAS
        for d in ONLINE_EWC_GAMMAS
    ]
    return (*ewc, *online)


# -- the table

_TABLE = (
    Experiment(
        name="main",
        about="nine conditions learn three tasks",
        shows="Table score-table, Fig. main-results",
        analysis="scores",
        conditions=_rows(*MAIN),
    ),
    Experiment(
        name="extended",
        about="six tasks: more than the network has capacity for",
        shows="Fig. extend-results",
        analysis="scores",
        conditions=_rows("reh-extend", "RePR-extend", "reh-extend-policy", "RePR-extend-policy"),
        tasks="arcade-6",
    ),
    Experiment(
        name="policy-short",
        about="only the policy is retained, with a quarter of the long-term training: does EWC work then?",
        shows="Fig. policy-only-results",
        analysis="scores",
        conditions=_rows("ewc-policy-short", "online-ewc-policy-short", "RePR-policy-short"),
    ),
    Experiment(
        name="item-quality",
        about="students trained from scratch on real or on generated items",
        shows="Table scratch, Fig. real-fake-ims",
        analysis="students",
        conditions=_rows("RePR"),
        analysis_stages=students,
        min_tasks=1,
    ),
    Experiment(
        name="importance",
        about="the weight alpha of the new task, with and without a short-term agent",
        shows="Table lscale, and alpha 0.35, 0.55 and 0.75 of the main text",
        analysis="importance",
        conditions=_alphas("RePR", MAIN_ALPHAS),
        two_task_conditions=(*_alphas("PR", tuple(IMPORTANCE["PR"])), *_alphas("RePR", tuple(IMPORTANCE["RePR"]))),
    ),
    Experiment(
        name="overlap",
        about="how far tasks share the weights that matter to them, learnt in either order",
        shows="Table F-over",
        analysis="overlap",
        conditions=_rows("RePR", "RePR-rev"),
        analysis_stages=overlaps,
    ),
    Experiment(
        name="ewc-search",
        about="grid search for the penalty weights of EWC and online-EWC",
        shows="Grids of the EWC appendix",
        analysis="grid",
        conditions=_grids(),
    ),
)
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({row.name: row for row in _TABLE})


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


# -- planning one


def plan_experiment(name: str, options: StudyOptions) -> Plan:
    """Plans everything that an experiment runs."""
    experiment = find_experiment(name)
    config = resolve(options, default_tasks=experiment.tasks, as_in_paper=True)
    count = len(config.sequence.tasks)
    if count < experiment.min_tasks:
        raise TooFewTasks(
            f"experiment {name} needs {experiment.min_tasks} tasks or more; {config.sequence.name} has {count}"
        )
    first_two = Sequence(",".join(config.sequence.names[:2]), config.sequence.tasks[:2]) if count > 2 else None
    chains = [chain for row in experiment.conditions for chain in config.chains(row)]
    chains += [chain for row in experiment.two_task_conditions for chain in config.chains(row, first_two)]
    chains = list({chain.name: chain for chain in chains}.values())  # with two tasks, both groups are the same
    points = (*experiment.conditions, *experiment.two_task_conditions)
    plan = Plan(config, chains, remarks=sweep_notices(points, config.user_values))
    for seed in config.seeds:
        _add_seed(plan, experiment, config, seed)
    return plan


def _add_seed(plan: Plan, experiment: Experiment, config: StudyConfig, seed: int) -> None:
    """Adds the analysis of one seed, and the record that a report reads."""
    chains = [chain for chain in plan.chains if chain.seed == seed]
    command = config.command("experiment", experiment.name)
    for chain in chains:
        chain.command = command if chain.condition.base else config.command("run", chain.condition.name)
    stages = experiment.analysis_stages(chains)
    plan.analysis_stages += [row.stage for row in stages]
    sequence = config.sequence
    plan.experiments.append(
        ExperimentRecord(
            name=f"{experiment.name}--{sequence.file_name}--seed-{seed}",
            experiment=experiment.name,
            sequence=sequence.name,
            tasks=sequence.names,
            titles=sequence.titles,
            seed=seed,
            command=command,
            runs=tuple(chain.name for chain in chains),
            stages=tuple(_entry(row) for row in stages),
        )
    )


def _entry(row: AnalysisStage) -> AnalysisStageEntry:
    stage = row.stage
    return AnalysisStageEntry(
        digest=stage.digest,
        title=stage.title,
        parents=tuple(stage.parents.values()),
        role=row.role,
        about=dict(row.about),
    )
