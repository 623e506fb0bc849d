"""A chain: one condition learning one sequence of tasks with one seed, as stages, from the condition's axes alone."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any

from reaper.config.overrides import check, with_overrides
from reaper.config.presets import VARIANTS
from reaper.config.settings import Settings
from reaper.config.sparse_json import to_json
from reaper.generators import generator_for
from reaper.networks.families import check_networks
from reaper.storage.records import RunRecord, StageEntry
from reaper.study.conditions import Condition
from reaper.study.continue_from import InitialMemory
from reaper.study.external_teachers import ExternalTeachers
from reaper.study.kinds.base import Inputs, Stage
from reaper.study.kinds.consolidate import CONSOLIDATE
from reaper.study.kinds.distil import DISTIL
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.external_teacher import EXTERNAL
from reaper.study.kinds.generator import GENERATOR
from reaper.study.kinds.short_term import SHORT_TERM
from reaper.tasks.sequence import Sequence


@dataclass
class Chain:
    """One condition learning one sequence with one seed: its stages, task by task."""

    condition: Condition
    sequence: Sequence
    seed: int
    settings: Settings
    teachers: list[Stage] = field(default_factory=list)
    distilled: list[Stage] = field(default_factory=list)  # the first agent, where its teacher has another network
    generators: list[Stage] = field(default_factory=list)
    memories: list[Stage] = field(default_factory=list)
    evaluations: list[Stage] = field(default_factory=list)  # after each task, on all tasks (the first: see below)
    singles: list[Stage] = field(default_factory=list)  # each teacher on its own task
    random: Stage | None = None
    command: str = ""  # the command line that reproduces this run
    external: ExternalTeachers = field(default_factory=ExternalTeachers)
    initial_memory: InitialMemory | None = None  # that it continues from; the lists begin with the tasks it knows

    @property
    def stages(self) -> list[Stage]:
        """All stages, parents first; the stages that made an initial memory are not among them."""
        known = len(self.initial_memory.tasks) if self.initial_memory else 0
        last = max(0, known - 1)  # the initial memory itself
        weights = filter(None, map(self.external.weights, self.sequence.names))
        found = [
            *weights,
            *self.teachers[known:],
            *self.distilled,
            *self.generators[known:],
            *self.memories[last:],
            *self.evaluations[last:],
        ]
        found += self.singles[known:]
        return [*found, self.random] if self.random else found

    @property
    def inputs(self) -> Inputs:
        """What its stages have in common."""
        return Inputs(self.settings, self.sequence.num_actions, self.seed, self.sequence.fewer_actions)

    @property
    def name(self) -> str:
        """Also the name of its record's file."""
        return f"{self.condition.name}--{self.sequence.file_name}--seed-{self.seed}"

    def record(self) -> RunRecord:
        """What the store keeps of the run, for reports and for loading agents."""

        def digests(stages: list[Stage]) -> tuple[str, ...]:
            return tuple(stage.digest for stage in stages)

        return RunRecord(
            name=self.name,
            condition=self.condition.describe(),
            sequence=self.sequence.name,
            tasks=self.sequence.names,
            titles=self.sequence.titles,
            num_actions=self.sequence.num_actions,
            seed=self.seed,
            command=self.command,
            settings=to_json(self.settings),
            teachers=digests(self.teachers),
            generators=digests(self.generators),
            memories=digests(self.memories),
            evaluations=digests(self.evaluations),
            singles=digests(self.singles),
            random=self.random.digest if self.random else None,
            stages={stage.digest: StageEntry.of(stage.title, stage.parents) for stage in self.stages},
            continued=self.initial_memory.record() if self.initial_memory else None,
            sources=self.external.record(),
        )


def settings_for(condition: Condition, base: Settings, user_values: Mapping[str, Any]) -> Settings:
    """The settings that a condition trains with: its variant of the base, then what it fixes itself, and last what the
    user gave explicitly, which holds in every condition."""
    own = with_overrides(VARIANTS[condition.variant](base), condition.own_settings)
    return with_overrides(own, user_values)


def build_chain(
    condition: Condition,
    sequence: Sequence,
    seed: int,
    base: Settings,
    *,
    user_values: Mapping[str, Any] | None = None,
    initial_memory: InitialMemory | None = None,
    external: ExternalTeachers | None = None,
) -> Chain:
    """The stages of a condition, from its axes alone, from teachers from elsewhere and from the memory it continues
    from, if any."""
    external = external or ExternalTeachers()
    condition = external.condition(condition) if external else condition
    condition = condition.suited_to(sequence.observation(base.observation), base)
    settings = settings_for(condition, base, user_values or {})
    check(settings)
    generator_for(settings)  # raises an error if there is no such generator
    sequence = sequence.reversed() if condition.reverse else sequence
    sequence = external.extend(sequence) if external else sequence
    if initial_memory:
        settings = initial_memory.adapt(settings, sequence, user_values or {})
        initial_memory.check(condition, settings, sequence)
        sequence = initial_memory.extend(sequence)
    settings = sequence.complete(settings)
    check_networks(settings, sequence.num_actions)
    chain = Chain(condition, sequence, seed, settings, external=external, initial_memory=initial_memory)
    objective, inputs, names = condition.make_objective(), chain.inputs, sequence.names
    chain.teachers = [_teacher(chain, name) for name in names]
    if objective.needs_generator:
        chain.generators = [
            GENERATOR.stage(inputs, name, teacher) for name, teacher in zip(names, chain.teachers, strict=True)
        ]
    if settings.short_term.network == "residual" and not initial_memory and not external.weights(names[0]):
        distil = DISTIL.stage(inputs, names[0], chain.teachers[0], condition)
        chain.distilled = [distil] if objective.consolidates else []
    first_teacher = (chain.distilled or chain.teachers)[0]
    chain.memories = initial_memory.memories() if initial_memory else []
    for i in range(len(chain.memories), len(names) if objective.consolidates else 0):
        parents = {
            "memory": chain.memories[-1] if i else None,
            "teacher": (chain.teachers[i] if i else first_teacher) if objective.needs_teacher or i == 0 else None,
            "generator": chain.generators[i] if objective.needs_generator else None,
        }
        chain.memories.append(CONSOLIDATE.stage(inputs, condition, names[: i + 1], parents))
    _add_evaluations(chain)
    return chain


def _teacher(chain: Chain, task: str) -> Stage:
    """Trained here, or elsewhere."""
    weights = chain.external.weights(task)
    return EXTERNAL.stage(chain.inputs, task, weights) if weights else SHORT_TERM.stage(chain.inputs, task)


def _add_evaluations(chain: Chain) -> None:
    """After each task on all tasks, each teacher on its own task, and random actions on all tasks."""
    condition, inputs, names = chain.condition, chain.inputs, chain.sequence.names
    chain.singles = [
        EVALUATE.stage(inputs, f"evaluate single {name}", (name,), teacher)
        for name, teacher in zip(names, chain.teachers, strict=True)
    ]
    chain.evaluations = [
        EVALUATE.stage(inputs, f"{condition.name}: evaluate after {name}", names, memory)
        for name, memory in zip(names, chain.memories, strict=False)
    ]
    if chain.evaluations and not chain.initial_memory and not chain.memories[0].spec.get("from_scratch"):
        chain.evaluations[0] = _first_evaluation(chain)
    chain.random = EVALUATE.stage(inputs, "evaluate random actions", names, None)


def _first_evaluation(chain: Chain) -> Stage:
    """The first long-term agent plays alike in every condition. So that it has one score, it is evaluated once for all
    of them. If it is a copy of the first teacher, `single` has its score on the first task."""
    first, *later = chain.sequence.names
    if chain.distilled:
        return EVALUATE.stage(chain.inputs, f"evaluate after {first}", (first, *later), chain.distilled[0])
    if not later:
        return chain.singles[0]
    return EVALUATE.stage(chain.inputs, f"evaluate after {first}", tuple(later), chain.teachers[0])


def unique_stages(chains: Many[Chain]) -> list[Stage]:
    """The stages of all chains, each once, parents first."""
    return list({stage.digest: stage for chain in chains for stage in chain.stages}.values())
