"""Dotted names, fractions, variants and checks, for groups of settings and for methods alike."""

from dataclasses import dataclass, field

import pytest

from reaper.config.fields import duration, positive, probability
from reaper.config.methods import MethodRegistry
from reaper.config.overrides import (
    all_settings,
    at_fraction,
    check,
    describe_settings,
    differences,
    find_setting,
    reset_from_second_task,
    setting_names,
    with_overrides,
)
from reaper.config.presets import ARCADE, PAPER, VARIANTS
from reaper.errors import UserError
from reaper.generators import GAN, generator_for
from reaper.retention import RETENTIONS, OnlineEWC


@dataclass(frozen=True)
class Decay:
    """A method of another package: fields with and without a range, and one that a fraction scales."""

    strength: float = 1.0
    rate: float = probability(0.5, "share that is kept per task", from_second_task=True)
    rounds: int = duration(1_000, "rounds per task", extended=3)
    exact: bool = False


@pytest.fixture
def decay():
    RETENTIONS["decay"] = Decay
    yield Decay
    del RETENTIONS["decay"]


def method(name, settings):
    return RETENTIONS.configure(name, settings)


def test_an_override_names_a_group_or_a_method(decay):
    changed = with_overrides(
        PAPER, {"training.num-envs": "8", "online_ewc.gamma": "0.95", "gan.steps": 100, "decay.exact": "true"}
    )
    assert changed.training.num_envs == 8
    assert method("online-ewc", changed) == OnlineEWC(gamma=0.95)
    assert generator_for(changed) == GAN(steps=100)
    assert method("decay", changed) == Decay(exact=True)


def test_a_method_keeps_only_values_that_differ_from_its_defaults():
    changed = with_overrides(PAPER, {"ewc.ewc-lambda": 50, "gan.steps": 7})
    assert changed.methods == {"ewc": {"ewc_lambda": 50.0}, "gan": {"steps": 7}}
    assert with_overrides(changed, {"ewc.ewc-lambda": 300}).methods == {"gan": {"steps": 7}}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gan.stpes", 1, "unknown setting 'gan.stpes'; did you mean 'gan.steps'"),
        ("ewc.lambda", 1, "did you mean 'ewc.ewc-lambda'"),
        ("decay.strenght", 1, "did you mean 'decay.strength'"),
        ("gan.steps", "2.5", "--gan.steps takes int, not '2.5'"),
        ("decay.exact", "maybe", "--decay.exact takes bool, not 'maybe'"),
        ("decay.strength", "strong", "--decay.strength takes float"),
    ],
)
def test_a_wrong_name_or_type_is_one_line(decay, name, value, message):
    with pytest.raises(UserError) as caught:
        with_overrides(PAPER, {name: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("training.num-envs", 0, "--training.num-envs must be above 0, not 0"),
        ("training.learning-starts", -1, "--training.learning-starts must be at least 0, not -1"),
        ("long-term.alpha", 1.5, "--long-term.alpha must lie between 0 and 1, not 1.5"),
        ("ewc.ewc-lambda", -1, "--ewc.ewc-lambda must be at least 0, not -1.0"),
        ("decay.rate", 2, "--decay.rate must lie between 0 and 1, not 2.0"),
        ("decay.rounds", 0, "--decay.rounds must be above 0, not 0"),
        ("decay.strength", "nan", "--decay.strength must be a finite number, not nan"),
        ("optimiser.name", "adma", "unknown --optimiser.name 'adma'; did you mean 'adam'?"),
        ("training.replay-capacity", 511, "--training.replay-capacity must be at least 512 for 64 environments"),
    ],
)
def test_a_value_out_of_range_is_one_line(decay, name, value, message):
    # The smallest replay: (frame_stack + 4) * num_envs = (4 + 4) * 64 = 512 transitions.
    with pytest.raises(UserError) as caught:
        check(with_overrides(PAPER, {name: value}))
    assert str(caught.value) == message


def test_presets_are_valid():
    for settings in (PAPER, ARCADE):
        check(settings)


def test_a_fraction_scales_durations_of_methods_too(decay):
    tenth = at_fraction(PAPER, 0.1)
    assert (generator_for(tenth).steps, generator_for(tenth).batch_size) == (20_000, 100)
    assert method("decay", tenth) == Decay(rounds=100)
    assert generator_for(at_fraction(ARCADE, 0.5)).steps == 3_000
    assert method("decay", at_fraction(PAPER, 1e-6)).rounds == 1  # never zero
    assert at_fraction(PAPER, 1.0) == PAPER


def test_overrides_come_after_the_fraction():
    assert generator_for(with_overrides(at_fraction(PAPER, 0.1), {"gan.steps": 6})).steps == 6


def test_the_extended_variant_multiplies_what_methods_declare(decay):
    extended = VARIANTS["extended"](with_overrides(PAPER, {"gan.steps": 6}))
    assert (generator_for(extended).steps, generator_for(extended).width) == (2 * 6, 2 * 1)
    assert method("decay", extended).rounds == 3 * 1_000


def test_settings_of_later_tasks_are_reset_for_the_first_memory(decay):
    changed = {"long-term.alpha": 0.1, "ewc.ewc-lambda": 1, "online-ewc.gamma": 0.5, "decay.rate": 0.1}
    kept = {"decay.strength": 2.0, "gan.steps": 6}
    assert reset_from_second_task(with_overrides(PAPER, changed | kept)) == with_overrides(PAPER, kept)


def test_differences_include_methods():
    assert differences(with_overrides(PAPER, {"gan.steps": 8, "network.width": 2}), PAPER) == {
        "network.width": (2, 1),
        "gan.steps": (8, 200_000),
    }


def test_every_setting_is_described():
    described = {row.name: row for row in describe_settings()}
    assert list(described) == setting_names()
    row = described["gan.steps"]
    steps = {"paper": 200_000, "modern": 40_000, "strong": 40_000, "arcade": 6_000, "vector": 20_000, "board": 6_000}
    assert (row.type, row.defaults) == ("int", steps)
    assert [row.name for row in described.values() if not row.help] == []


def test_every_setting_has_a_default():
    assert all(setting.field.default == setting.value_in(PAPER) for setting in all_settings())
    assert find_setting("short_term.discount").name == "short-term.discount"


@dataclass(frozen=True)
class NoDefault:
    strength: float


@dataclass(frozen=True)
class Mutable:
    strengths: list = field(default_factory=list)


class Plain:
    pass


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("Stay Close", Decay, "use lower-case letters, digits and hyphens"),
        ("short-term", Decay, "would hide the settings short-term.*"),
        ("gan", Decay, "there is a generator of that name already"),
        ("ewc", Decay, "'ewc' is already registered"),
        ("plain", Plain, "must be a dataclass"),
        ("no-default", NoDefault, "strength needs a default value"),
        ("mutable", Mutable, "strengths needs a default value"),
    ],
)
def test_a_method_that_cannot_be_registered(name, kind, message):
    with pytest.raises(UserError, match=message.replace("*", r"\*")):
        RETENTIONS[name] = kind


def test_a_registry_describes_only_what_differs(decay):
    assert RETENTIONS.describe(Decay(strength=2.0)) == {"name": "decay", "strength": 2.0}
    assert RETENTIONS.describe(OnlineEWC()) == {"name": "online-ewc"}


def test_a_declared_range_is_enforced_without_naming_the_setting_twice():
    @dataclass(frozen=True)
    class Local:
        size: int = positive(3, "size")

    registry = MethodRegistry("thing", "reaper.tests")
    try:
        registry["local"] = Local
        with pytest.raises(UserError, match=r"^--local\.size must be above 0, not 0$"):
            check(with_overrides(PAPER, {"local.size": 0}))
    finally:
        del registry["local"]
