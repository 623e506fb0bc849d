"""What follows from the axes of a condition."""

import pytest

from reaper.config.presets import ARCADE
from reaper.retention import EWC
from reaper.study.chains import build_chain
from reaper.study.conditions import Condition, find_condition
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
