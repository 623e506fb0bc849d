"""What follows from the axes of a condition."""

import pytest

from reaper.config.presets import ARCADE, MODERN, STRONG, VECTOR
from reaper.errors import UserError
from reaper.retention import EWC
from reaper.study.chains import build_chain
from reaper.study.conditions import Condition, find_condition
from reaper.study.preflight import memory_bytes
from reaper.tasks.sequence import find_sequence

MINE = Condition("mine", "distillation", EWC(), knowledge="policy")
LOGITS = Condition("logits", "distillation", EWC(), knowledge="policy", overrides={"ewc.fisher-output": "linear"})


@pytest.mark.parametrize(
    ("condition", "methods"),
    [
        (find_condition("ewc-policy-short"), {"ewc": {"fisher_output": "softmax"}}),
        (find_condition("online-ewc-policy-short"), {"online-ewc": {"fisher_output": "softmax"}}),
        (MINE, {"ewc": {"fisher_output": "softmax"}}),
        (LOGITS, None),
        (find_condition("ewc"), None),  # as in 0.2: finished stages keep their digests
        (find_condition("online-ewc"), None),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_condition_that_retains_a_policy_measures_the_fisher_matrix_of_its_softmax(condition, methods):
    chain = build_chain(condition, find_sequence("arcade-3"), 0, ARCADE)
    for memory in chain.memories:
        assert memory.spec["settings"].get("methods") == methods
    assert condition.make_retention(chain.settings).fisher_output == ("softmax" if methods else "linear")


@pytest.mark.parametrize("name", ["reh-limit-comp", "compressed-rehearsal"])
def test_items_are_compressed_by_lzma_unless_a_user_asks_for_zlib(name):
    condition, sequence = find_condition(name), find_sequence("arcade-3")
    chain = build_chain(condition, sequence, 0, ARCADE)
    assert condition.make_retention(chain.settings).codec == "lzma"
    asked = build_chain(condition, sequence, 0, ARCADE, user_values={"compressed-rehearsal.codec": "zlib"})
    assert condition.make_retention(asked.settings).codec == "zlib"
    assert asked.memories[0].digest != chain.memories[0].digest


def test_repr_plus_is_repr_with_cutmix_where_frames_are_too_large_for_its_generator():
    condition = find_condition("RePR-plus")

    def choices(preset, sequence, **user_values):
        settings = build_chain(condition, find_sequence(sequence), 0, preset, user_values=user_values).settings
        return settings.generator.name, condition.make_retention(settings).cutmix

    assert choices(ARCADE, "arcade-3") == ("tokens", 0.0)
    assert choices(MODERN, "atari-3") == ("gan", 0.5)
    assert choices(MODERN, "atari-3", **{"pseudo-rehearsal.cutmix": 0.25}) == ("gan", 0.25)


def test_repr_plus_shares_its_memories_with_repr_where_the_preset_has_cutmix():
    plus, plain = (
        build_chain(find_condition(name), find_sequence("atari-3"), 0, STRONG) for name in ("RePR-plus", "RePR")
    )
    assert [memory.digest for memory in plus.memories] == [memory.digest for memory in plain.memories]


def test_repr_plus_refuses_vectors():
    chain = build_chain(find_condition("RePR-plus"), find_sequence("CartPole-v1,Acrobot-v1"), 0, VECTOR)
    with pytest.raises(UserError, match="needs small images"):
        memory_bytes(chain, 2)
