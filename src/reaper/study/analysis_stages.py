"""The stages that the analyses of experiments add to those of their chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reaper.study.chains import Chain
from reaper.study.kinds.base import Stage
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.fisher import FISHER, OVERLAP
from reaper.study.kinds.generator import GENERATOR
from reaper.study.kinds.student import STUDENT


class AnalysisStage(NamedTuple):
    """A stage that an analysis adds, and its role in the analysis."""

    stage: Stage
    role: str
    about: Mapping[str, Any]


def no_stages(chains: list[Chain]) -> list[AnalysisStage]:
    """For an experiment that compares the runs of its conditions and needs nothing else."""
    return []


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
