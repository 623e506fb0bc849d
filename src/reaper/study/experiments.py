"""The paper's experiments: each is a set of conditions, and an analysis that may add stages of its own.

Experiments share stages: what two of them have in common (teachers above all) has the same digest, so a second
experiment in the same output folder runs only what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from reaper.errors import UserError, unknown
from reaper.paper.results import EWC_LAMBDAS, IMPORTANCE, MAIN_ALPHAS, ONLINE_EWC_GAMMAS, ONLINE_EWC_LAMBDAS
from reaper.storage.records import AnalysisStageEntry, ExperimentRecord
from reaper.study.chains import Chain
from reaper.study.conditions import CONDITIONS, MAIN, Condition
from reaper.study.kinds.base import Stage
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.fisher import FISHER, OVERLAP
from reaper.study.kinds.generator import GENERATOR
from reaper.study.kinds.student import STUDENT
from reaper.study.options import DEFAULT_TASKS, StudyOptions
from reaper.study.plan import Plan, StudyConfig, resolve
from reaper.tasks.sequence import Sequence


class TooFewTasks(UserError):
    """The sequence is too short for an experiment."""


class AnalysisStage(NamedTuple):
    """A stage that an analysis adds, and its role in the analysis."""

    stage: Stage
    role: str
    about: Mapping[str, Any]


AddStages = Callable[[list[Chain]], list[AnalysisStage]]  # the chains of one seed -> the stages of the analysis


def no_stages(chains: list[Chain]) -> list[AnalysisStage]:
    return []


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    about: str
    shows: str  # where in the paper
    analysis: str  # how its results are read (report/analyses.py)
    conditions: tuple[Condition, ...]
    two_task_conditions: tuple[Condition, ...] = ()  # these learn only the first two tasks
    analysis_stages: AddStages = no_stages
    tasks: str = DEFAULT_TASKS
    min_tasks: int = 2


def _rows(*names: str) -> tuple[Condition, ...]:
    return tuple(CONDITIONS[name] for name in names)


def _alphas(condition: str, alphas: tuple[float, ...]) -> tuple[Condition, ...]:
    return tuple(CONDITIONS[condition].at(f"alpha={a:g}", {"long-term.alpha": a}) for a in alphas)


def _grids() -> tuple[Condition, ...]:
    """The two grids of the EWC appendix."""
    ewc = [CONDITIONS["ewc"].at(f"lambda={s:g}", {"ewc.ewc-lambda": s}) for s in EWC_LAMBDAS]
    online = [
        CONDITIONS["online-ewc"].at(f"lambda={s:g} gamma={d:g}", {"online-ewc.ewc-lambda": s, "online-ewc.gamma": d})
        for s in ONLINE_EWC_LAMBDAS
        for d in ONLINE_EWC_GAMMAS
    ]
    return (*ewc, *online)


# -- the stages that analyses add


def students(chains: list[Chain]) -> list[AnalysisStage]:
    """A student of each task and one of all of them, each from real and from generated items."""
    (chain,) = chains
    inputs, names = chain.inputs, chain.sequence.names
    generators = [GENERATOR.stage(inputs, n, t) for n, t in zip(names, chain.teachers, strict=True)]
    found = [
        AnalysisStage(stage, "generator", {"tasks": [name]}) for name, stage in zip(names, generators, strict=True)
    ]
    cases: list[tuple[tuple[str, ...], Stage, list[Stage], Stage]] = [
        ((name,), teacher, [teacher], generator)
        for name, teacher, generator in zip(names, chain.teachers, generators, strict=True)
    ]
    if len(names) > 1:
        cases.append((names, chain.memories[-1], chain.teachers, chain.memories[-1]))
    for tasks, teacher, actors, generator in cases:
        for items, sources in (("real", actors), ("generated", [generator])):
            student = STUDENT.stage(inputs, tasks, items, teacher=teacher, sources=sources)
            title = f"evaluate {student.title.removesuffix(f' (seed {chain.seed})')}"
            evaluation = EVALUATE.stage(inputs, title, tasks, student)
            about = {"items": items, "tasks": list(tasks)}
            found += [AnalysisStage(student, "student", about), AnalysisStage(evaluation, "evaluation", about)]
    return found


def overlaps(chains: list[Chain]) -> list[AnalysisStage]:
    """The Fisher matrix of each last agent on each task, and how far the weights that matter are the same."""
    found = []
    for chain in chains:
        name, inputs, tasks = chain.condition.name, chain.inputs, chain.sequence.names
        fishers = [
            FISHER.stage(inputs, name, task, agent=chain.memories[-1], teacher=teacher)
            for task, teacher in zip(tasks, chain.teachers, strict=True)
        ]
        found += [AnalysisStage(stage, "fisher", {"condition": name}) for stage in fishers]
        overlap = OVERLAP.stage(inputs, name, tasks, fishers)
        found.append(AnalysisStage(overlap, "overlap", {"condition": name}))
    return found


# -- the table

_TABLE = (
    Experiment(
        "main", "nine conditions learn three tasks", "Table score-table, Fig. main-results", "scores", _rows(*MAIN)
    ),
    Experiment(
        "extended",
        "six tasks: what happens beyond capacity",
        "Fig. extend-results",
        "scores",
        _rows("reh-extend", "RePR-extend", "reh-extend-policy", "RePR-extend-policy"),
        tasks="arcade-6",
    ),
    Experiment(
        "policy-short",
        "only the policy is kept, and for a shorter time: does EWC work then?",
        "Fig. policy-only-results",
        "scores",
        _rows("ewc-policy-short", "online-ewc-policy-short", "RePR-policy-short"),
    ),
    Experiment(
        "item-quality",
        "students trained from scratch on real or on generated items",
        "Table scratch, Fig. real-fake-ims",
        "students",
        _rows("RePR"),
        analysis_stages=students,
        min_tasks=1,
    ),
    Experiment(
        "importance",
        "how much the new task should count, with and without a second memory",
        "Table lscale, and alpha 0.35, 0.55 and 0.75 of the main text",
        "importance",
        _alphas("RePR", MAIN_ALPHAS),
        two_task_conditions=(*_alphas("PR", tuple(IMPORTANCE["PR"])), *_alphas("RePR", tuple(IMPORTANCE["RePR"]))),
    ),
    Experiment(
        "overlap",
        "whether tasks are played with the same weights, learnt in either order",
        "Table F-over",
        "overlap",
        _rows("RePR", "RePR-rev"),
        analysis_stages=overlaps,
    ),
    Experiment("ewc-search", "the best strength of EWC and online-EWC", "Grids of the EWC appendix", "grid", _grids()),
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
    config = resolve(options, default_tasks=experiment.tasks)
    count = len(config.sequence.tasks)
    if count < experiment.min_tasks:
        raise TooFewTasks(
            f"experiment {name} needs {experiment.min_tasks} tasks or more; {config.sequence.name} has {count}"
        )
    two = Sequence(",".join(config.sequence.names[:2]), config.sequence.tasks[:2])
    chains = [chain for row in experiment.conditions for chain in config.chains(row)]
    chains += [
        chain for row in experiment.two_task_conditions for chain in config.chains(row, two if count > 2 else None)
    ]
    chains = list({chain.name: chain for chain in chains}.values())  # with two tasks, both groups are the same
    plan = Plan(config, chains)
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
            titles=tuple(task.title for task in sequence.tasks),
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
