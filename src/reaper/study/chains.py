"""A chain: one condition learning one sequence of tasks with one seed, as stages, from the condition's axes alone."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from reaper.config import presets as scales
from reaper.config.settings import Settings
from reaper.storage.records import RunRecord, StageEntry
from reaper.study.conditions import Condition
from reaper.study.continue_from import InitialMemory
from reaper.study.stages import Stage, consolidation_stage, evaluation_stage, generator_stage, short_term_stage
from reaper.tasks.sequence import Sequence


@dataclass
class Chain:
    """One condition learning one sequence with one seed: its stages, task by task."""

    condition: Condition
    sequence: Sequence
    seed: int
    settings: Settings
    teachers: list[Stage] = field(default_factory=list)
    generators: list[Stage] = field(default_factory=list)
    memories: list[Stage] = field(default_factory=list)
    evaluations: list[Stage] = field(default_factory=list)  # after each task, on all tasks
    singles: list[Stage] = field(default_factory=list)  # each teacher on its own task
    random: Stage | None = None
    command: str = ""  # what to type to get this run again
    inherited: InitialMemory | None = None  # what the chain goes on from; lists begin with what that knows

    @property
    def stages(self) -> list[Stage]:
        """All stages, parents first; how an inherited memory came about is not among them."""
        known = len(self.inherited.tasks) if self.inherited else 0
        last = max(0, known - 1)  # the inherited memory itself
        found = [*self.teachers[known:], *self.generators[known:], *self.memories[last:], *self.evaluations[last:]]
        found += self.singles[known:]
        return [*found, self.random] if self.random else found

    @property
    def name(self) -> str:
        return f"{self.condition.name}--{self.sequence.file_name}--seed-{self.seed}"  # also of its record's file

    def record(self) -> RunRecord:
        """What the store keeps of the run, for reports and for loading agents."""

        def digests(stages: list[Stage]) -> tuple[str, ...]:
            return tuple(stage.digest for stage in stages)

        return RunRecord(
            name=self.name,
            condition=self.condition.describe(),
            sequence=self.sequence.name,
            tasks=self.sequence.names,
            titles=tuple(task.title for task in self.sequence.tasks),
            num_actions=self.sequence.num_actions,
            seed=self.seed,
            command=self.command,
            settings=scales.as_dict(self.settings),
            teachers=digests(self.teachers),
            generators=digests(self.generators),
            memories=digests(self.memories),
            evaluations=digests(self.evaluations),
            singles=digests(self.singles),
            random=self.random.digest if self.random else None,
            stages={stage.digest: StageEntry(stage.title, tuple(stage.parents.values())) for stage in self.stages},
            continued=self.inherited.record() if self.inherited else None,
        )


def build_chain(
    condition: Condition, sequence: Sequence, seed: int, base: Settings, inherited: InitialMemory | None = None
) -> Chain:
    """The stages of a condition, from its axes alone, and from the memory that it goes on from, if any."""
    variant = scales.VARIANTS[condition.variant](base)
    settings = scales.with_overrides(variant, condition.overrides)
    scales.check(settings)
    early = {k: v for k, v in condition.overrides.items() if k not in scales.FROM_THE_SECOND_TASK}
    first = scales.with_overrides(variant, early)  # so that a sweep shares its first long-term memory
    sequence = sequence.reversed() if condition.reverse else sequence
    if inherited:
        inherited.check(condition, settings, sequence)
        sequence = inherited.before(sequence)
    chain, names, actions = Chain(condition, sequence, seed, settings), sequence.names, sequence.num_actions
    chain.inherited, chain.memories = inherited, inherited.memories() if inherited else []
    objective, described = condition.teaches, condition.describe()
    axes = {axis: described[axis] for axis in ("objective", "retention", "knowledge")}
    owners = [
        condition.base or condition.name,
        *[condition.name] * (len(names) - 1),
    ]  # a sweep's first stages are shared
    chain.teachers = [short_term_stage(settings, name, actions, seed) for name in names]
    if objective.needs_generator:
        chain.generators = [
            generator_stage(settings, name, actions, seed, teacher)
            for name, teacher in zip(names, chain.teachers, strict=True)
        ]
    for i in range(len(chain.memories), len(names) if objective.consolidates else 0):
        parents = {
            "memory": chain.memories[-1] if i else None,
            "teacher": chain.teachers[i] if objective.needs_teacher or i == 0 else None,
            "generator": chain.generators[i] if objective.needs_generator else None,
        }
        title = f"{owners[i]}: consolidate {names[i]}"
        own = settings if i else first
        chain.memories.append(consolidation_stage(title, own, names[: i + 1], actions, seed, axes, parents))
    chain.evaluations = [
        evaluation_stage(f"{owner}: evaluate after {name}", settings, names, actions, seed, memory)
        for owner, name, memory in zip(owners, names, chain.memories, strict=False)
    ]
    chain.singles = [
        evaluation_stage(f"evaluate single {name}", settings, (name,), actions, seed, teacher)
        for name, teacher in zip(names, chain.teachers, strict=True)
    ]
    chain.random = evaluation_stage("evaluate random play", settings, names, actions, seed, None)
    return chain


def unique_stages(chains: Many[Chain]) -> list[Stage]:
    """The stages of all chains, each once, parents first."""
    return list({stage.digest: stage for chain in chains for stage in chain.stages}.values())
