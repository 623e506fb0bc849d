"""Planning a study: conditions x seeds on a sequence of tasks, checked and laid out as a graph of stages.

Nothing is run and nothing is written here; `reaper.engines.execute` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reaper import version
from reaper.config.overrides import at_fraction, check, parse_overrides, with_overrides
from reaper.config.presets import PRESETS
from reaper.config.settings import Settings
from reaper.config.sparse_json import to_json
from reaper.errors import UserError, unknown
from reaper.storage.records import ExperimentRecord, StoreHeader
from reaper.storage.store import Store
from reaper.study.action_gap import gap_notice, small_gaps
from reaper.study.chains import Chain, build_chain, unique_stages
from reaper.study.conditions import Condition, find_condition
from reaper.study.continue_from import InitialMemory, open_initial_memory
from reaper.study.external_teachers import ExternalTeachers, open_teachers
from reaper.study.kinds.base import Stage
from reaper.study.options import DEFAULT_TASKS, StudyOptions
from reaper.study.user_values import user_value_notices
from reaper.tasks.sequence import Sequence, find_sequence


@dataclass(frozen=True)
class StudyConfig:
    """What all chains of a study share, checked: everything but the conditions."""

    options: StudyOptions
    sequence: Sequence
    seeds: tuple[int, ...]
    preset: str
    fraction: float  # of the preset's budget
    settings: Settings
    user_values: Mapping[str, Any]  # settings that the user gave, by dotted name; they hold in every condition
    external: ExternalTeachers = field(default_factory=ExternalTeachers)  # of some or all tasks
    initial_memory: InitialMemory | None = None  # that learns the tasks after those it knows
    small_gaps: Mapping[str, float] = field(default_factory=dict)  # why policies are targets: study/action_gap.py

    @property
    def header(self) -> StoreHeader:
        """What all stages in an output folder have in common; a folder with another header is refused."""
        settings = to_json(self.settings)
        return StoreHeader(version.VERSION, self.preset, self.fraction, settings, self.user_values)

    def command(self, *words: str) -> str:
        """The command line that runs the same study."""
        return replace(self.options, tasks=self.sequence.name).command(*words)

    def chains(self, condition: Condition, sequence: Sequence | None = None) -> list[Chain]:
        """One chain per seed, on the whole sequence or on another one."""
        given: dict[str, Any] = {"user_values": self.user_values, "initial_memory": self.initial_memory}
        given["external"] = self.external
        condition, tasks = condition.with_user_values(self.user_values), sequence or self.sequence
        # Not in the header: what teachers are like is no setting of the folder, which others may be run in, too.
        targets = {"long-term.targets": "policy"} if self.small_gaps else {}
        settings = with_overrides(self.settings, targets)
        return [build_chain(condition, tasks, seed, settings, **given) for seed in self.seeds]


@dataclass
class Plan:
    """A study that has been checked and can be executed."""

    config: StudyConfig
    chains: list[Chain]
    analysis_stages: list[Stage] = field(default_factory=list)  # of an experiment, parents first
    experiments: list[ExperimentRecord] = field(default_factory=list)  # the experiment's records, one per seed
    remarks: list[str] = field(default_factory=list)  # about the experiment

    @property
    def header(self) -> StoreHeader:
        return self.config.header

    @property
    def notices(self) -> list[str]:
        """What the user should know before the study starts."""
        about_values = user_value_notices(self.chains, self.config.user_values)
        about_teachers = self.config.external.notices(self.config.sequence)
        about_teachers += [gap_notice(self.config.small_gaps)] if self.config.small_gaps else []
        memory = self.config.initial_memory
        about_memory = memory.notices(self.config.settings) if memory else []
        return [*self.config.sequence.notices, *about_memory, *about_teachers, *self.remarks, *about_values]

    @property
    def stages(self) -> list[Stage]:
        """All stages, each once, parents first."""
        found: dict[str, Stage] = {}
        for stage in (*unique_stages(self.chains), *self.analysis_stages):
            found.setdefault(stage.digest, stage)
        return list(found.values())


def plan(conditions: Many[str], options: StudyOptions) -> Plan:
    """Plans a study of conditions by name."""
    rows = [find_condition(name) for name in conditions]
    if not rows:
        raise UserError("name at least one condition; `reaper conditions` lists them")
    config = _with_targets(resolve(options))
    chains = [chain for row in rows for chain in config.chains(row)]
    for chain in chains:
        chain.command = config.command("consolidate" if config.external else "run", *conditions)
    return Plan(config, chains)


def _with_targets(config: StudyConfig) -> StudyConfig:
    """With policies as targets where teachers from elsewhere have values that are too close to copy, unless the user
    has chosen the targets or continues from a memory."""
    if not config.external or config.initial_memory or "long-term.targets" in config.user_values:
        return config
    return replace(config, small_gaps=small_gaps(config.external.files, config.sequence, config.settings))


def resolve(options: StudyOptions, default_tasks: str = DEFAULT_TASKS, *, as_in_paper: bool = False) -> StudyConfig:
    """Checks everything that can be checked before any work is done. `as_in_paper`: by default with its settings."""
    sequence = find_sequence(options.tasks or ",".join(options.teachers) or default_tasks)
    default = sequence.paper_preset if as_in_paper else sequence.preset
    preset = options.preset or _preset_of(options.out, sequence) or default
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    fraction = options.fraction_of(PRESETS[preset].short_term.agent_steps)
    preset, settings = resolve_settings(sequence, preset=preset, fraction=fraction, overrides=options.overrides)
    memory = None
    if options.continue_from is not None:
        memory = open_initial_memory(options.continue_from, options.from_condition, options.from_seed)
    seeds = tuple(sorted(set(options.seeds)))
    return StudyConfig(
        options=options,
        sequence=sequence,
        seeds=seeds,
        preset=preset,
        fraction=fraction,
        settings=settings,
        user_values=parse_overrides(options.overrides),
        external=open_teachers(options, sequence, sequence.observation(settings.observation)),
        initial_memory=memory,
    )


def _preset_of(out: Path, sequence: Sequence) -> str | None:
    """The preset of the study that an output folder holds, for resizable images, for which there are several: to
    continue that study, nobody needs to remember it."""
    if sequence.preset != "modern" or not (out / "reaper.json").exists():
        return None
    recorded = Store.open(out).header.preset
    return recorded if recorded in ("paper", "modern", "strong") else None


def resolve_settings(
    sequence: Sequence, *, preset: str | None = None, fraction: float = 1.0, overrides: Mapping[str, Any] | None = None
) -> tuple[str, Settings]:
    """The preset's name, and its settings with the fraction applied and then the overrides.

    They are applied before the fraction, too: what the fraction derives from a setting (the interval between
    evaluations, from `evaluation.min-interval`) is derived from the user's value.
    """
    name = preset or sequence.preset
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    overrides = overrides or {}
    settings = with_overrides(at_fraction(with_overrides(PRESETS[name], overrides), fraction), overrides)
    check(settings)
    sequence.observation(settings.observation)  # refuses tasks that cannot be observed with these settings
    return name, settings
