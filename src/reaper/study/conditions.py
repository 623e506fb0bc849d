"""The table of conditions: each is a point on four axes, and nothing branches on a condition's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reaper.config.methods import changed_fields
from reaper.config.overrides import with_overrides
from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.learning.knowledge import (
    Knowledge,
    Policy,
    QValues,
    SoftPolicy,
    StandardisedAdvantages,
    StandardisedQValues,
)
from reaper.learning.objectives import DirectQLearning, Distillation, GeneratedDistillation, Objective, SingleTask
from reaper.plugins import Registry
from reaper.retention import (
    EWC,
    RETENTIONS,
    CompressedRehearsal,
    LimitedRehearsal,
    MixedRehearsal,
    NoRetention,
    OnlineEWC,
    PseudoRehearsal,
    Rehearsal,
    Retention,
    UntrainedGenerator,
)
from reaper.tasks.observation import VECTOR, ObservationSpec

OBJECTIVES: Registry[type[Objective]] = Registry("objective", "reaper.objectives")
OBJECTIVES["distillation"] = Distillation
OBJECTIVES["generated distillation"] = GeneratedDistillation
OBJECTIVES["q-learning"] = DirectQLearning
OBJECTIVES["single-task"] = SingleTask

KNOWLEDGE: Registry[type[Knowledge]] = Registry("kind of knowledge", "reaper.knowledge")
KNOWLEDGE["Q-values"] = QValues
KNOWLEDGE["standardised Q-values"] = StandardisedQValues
KNOWLEDGE["policy"] = Policy


def knowledge_for(name: str, settings: Settings) -> Knowledge:
    """A kind of knowledge; settings may ask for advantages or policies in place of plain Q-values."""
    targets = settings.long_term.targets if KNOWLEDGE[name] is QValues else "values"
    if targets == "advantages":
        return StandardisedAdvantages()
    return SoftPolicy(settings.long_term.temperature) if targets == "policy" else KNOWLEDGE[name]()


@dataclass(frozen=True)
class Condition:
    """How a sequence of tasks is learnt."""

    name: str
    objective: str  # how the new task is learnt: a name of OBJECTIVES
    retention: Retention  # how earlier tasks are retained; hyper-parameters given here hold for this condition
    knowledge: str = "Q-values"  # what of an agent is distilled: a name of KNOWLEDGE
    variant: str = "main"  # of the preset: main, extended or short
    reverse: bool = False  # the tasks in the opposite order
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of this condition alone
    fallback: Mapping[str, Any] | None = None  # overrides instead of those, for images that their generator cannot draw
    about: str = ""
    base: str = ""  # the condition of which this is one point of a sweep; such a point is in no table of conditions
    labels: Mapping[str, str] = field(default_factory=dict)  # of a point: setting -> how its name calls it (alpha)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that this condition fixes, by dotted name; only a user's value beats them."""
        name = RETENTIONS.name_of(self.retention)
        fields = {**self.retention.settings_for(self.make_knowledge()), **changed_fields(self.retention)}
        return {**{f"{name}.{key}": value for key, value in fields.items()}, **self.overrides}

    def make_objective(self) -> Objective:
        return OBJECTIVES[self.objective]()

    def make_knowledge(self) -> Knowledge:
        return KNOWLEDGE[self.knowledge]()

    def make_retention(self, settings: Settings) -> Retention:
        """The retention method with the hyper-parameters that the settings of a run give it."""
        return RETENTIONS.configure(RETENTIONS.name_of(self.retention), settings)

    @property
    def uses_generator(self) -> bool:
        """Whether it depends on a generator and rehearses what that generates."""
        return self.retention.uses_generator or self.make_objective().needs_generator

    def axes(self) -> dict[str, str]:
        """The axes that a long-term memory depends on besides its settings, by registered name."""
        retention = RETENTIONS.name_of(self.retention)
        return {"objective": self.objective, "retention": retention, "knowledge": self.knowledge}

    def describe(self) -> dict[str, Any]:
        """The condition as plain values, as `reaper conditions --json` prints them and records of runs hold them."""
        described = {
            "name": self.name,
            "objective": self.objective,
            "retention": RETENTIONS.describe(self.retention),
            "knowledge": self.knowledge,
            "variant": self.variant,
            "reverse": self.reverse,
            "overrides": dict(self.overrides),
            "about": self.about,
            "base": self.base,
        }
        return described if self.fallback is None else {**described, "fallback": dict(self.fallback)}

    def suited_to(self, observation: ObservationSpec, settings: Settings) -> Condition:
        """The condition for tasks that are observed so: with its fallback, where its generator cannot draw images."""
        if self.fallback is None or observation.kind == VECTOR:
            return self
        generator = generator_for(with_overrides(settings, self.overrides))
        return self if generator.suits(observation) else replace(self, overrides=self.fallback)

    def at(self, point: Mapping[str, Any], labels: Mapping[str, str]) -> Condition:
        """One point of a sweep over settings: `RePR alpha=0.75`."""
        base, label = self.base or self.name, " ".join(f"{labels[name]}={value:g}" for name, value in point.items())
        overrides, about = {**self.overrides, **point}, f"{base} with {label}"
        return replace(self, name=f"{base} {label}", base=base, overrides=overrides, about=about, labels=labels)

    def with_user_values(self, values: Mapping[str, Any]) -> Condition:
        """A point of a sweep moves to the values that the user gives, so that its name stays true; other conditions
        are not defined by their values, and keep their names."""
        if not self.labels:
            return self
        return self.at({name: values.get(name, self.overrides[name]) for name in self.labels}, self.labels)


CONDITIONS: Registry[Condition] = Registry("condition", "reaper.conditions")


def register_condition(condition: Condition) -> None:
    """Adds a row to the table."""
    CONDITIONS[condition.name] = condition


POLICY = "-policy"  # ends the name of a condition that distils policies where its row of the table distils values


def as_policy(condition: Condition) -> Condition:
    """The same condition, but of every agent only the policy is distilled: which action is best."""
    objective = condition.make_objective()
    if condition.knowledge == "policy" or not (objective.consolidates and objective.needs_teacher):
        return condition
    about = f"{condition.about}; policy only"
    return replace(condition, name=f"{condition.name}{POLICY}", knowledge="policy", about=about)


def find_condition(name: str) -> Condition:
    """A row of the table; or, by the name of a retention method, that method with distillation of Q-values; or
    `NAME-policy`, a row that distils, with policies."""
    base = name.removesuffix(POLICY)
    if name not in CONDITIONS and base != name and base in CONDITIONS:
        policy = as_policy(CONDITIONS[base])
        if policy.name == name:
            return policy
    if name not in CONDITIONS and name in RETENTIONS:
        return Condition(name, "distillation", RETENTIONS[name](), about=f"the retention method {name}")
    return CONDITIONS[name]


def _row(name: str, objective: str, retention: Retention, about: str, **axes: Any) -> None:
    register_condition(Condition(name, objective, retention, about=about, **axes))


_row("no-reh", "distillation", NoRetention(), "no retention: the lower baseline")
_row("reh", "distillation", Rehearsal(), "real items of earlier tasks: the upper baseline")
_row("RePR", "distillation", PseudoRehearsal(), "states of earlier tasks from a generator")
_row("ewc", "distillation", EWC(), "one weight penalty per earlier task")
_row("online-ewc", "distillation", OnlineEWC(), "one running weight penalty")
_row("PR", "q-learning", PseudoRehearsal(), "pseudo-rehearsal without a second memory")
_row("DGDMN", "generated distillation", PseudoRehearsal(), "the new task, too, is distilled from generated states")
_row("reh-limit", "distillation", LimitedRehearsal(), "raw items that fit in the generator's bytes")
_row("reh-limit-comp", "distillation", CompressedRehearsal(), "compressed items that fit in the generator's bytes")

# The nine rows of the paper's main table.
MAIN = ("no-reh", "reh", "RePR", "ewc", "online-ewc", "PR", "DGDMN", "reh-limit", "reh-limit-comp")

_EXTENDED = {"variant": "extended"}
_row("reh-extend", "distillation", Rehearsal(), "six tasks", knowledge="standardised Q-values", **_EXTENDED)
_row("RePR-extend", "distillation", PseudoRehearsal(), "six tasks", knowledge="standardised Q-values", **_EXTENDED)
_row("reh-extend-policy", "distillation", Rehearsal(), "six tasks, policy only", knowledge="policy", **_EXTENDED)
_row("RePR-extend-policy", "distillation", PseudoRehearsal(), "six tasks, policy only", knowledge="policy", **_EXTENDED)

_SHORT = {"variant": "short", "knowledge": "policy"}
_row("ewc-policy-short", "distillation", EWC(), "policy only, a quarter of the long-term training", **_SHORT)
_row(
    "online-ewc-policy-short", "distillation", OnlineEWC(), "policy only, a quarter of the long-term training", **_SHORT
)
_row(
    "RePR-policy-short", "distillation", PseudoRehearsal(), "policy only, a quarter of the long-term training", **_SHORT
)

_row("RePR-rev", "distillation", PseudoRehearsal(), "the tasks in reverse order", reverse=True)
_row("single", "single-task", NoRetention(), "one DQN per task: the reference for every score")
_row("RePR-untrained", "distillation", UntrainedGenerator(), "a control: the generator is never trained")
_row(
    "RePR-plus",
    "distillation",
    PseudoRehearsal(),
    "a model of patches; on large frames a GAN with CutMix",
    overrides={"generator.name": "tokens"},
    fallback={"pseudo-rehearsal.cutmix": 0.5},
)
_row(
    "RePR-mixed",
    "distillation",
    MixedRehearsal(real_share=0.75, block=256),
    "a narrower generator and compressed items",
    overrides={"gan.narrow": 4},
)
