"""Values that hardly differ between actions are not copied: which teachers that is true of, and what is done then."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import plan_tiny

from reaper.config.presets import PRESETS
from reaper.study import action_gap
from reaper.study.action_gap import relative_gap


@pytest.fixture(autouse=True)
def advantages_by_default(monkeypatch):
    vector = PRESETS["vector"]
    long_term = replace(vector.long_term, targets="advantages")
    monkeypatch.setitem(PRESETS, "vector", replace(vector, long_term=long_term))


def teacher(gap):
    """Values of CartPole that differ by about 1 between states, and by `gap` between actions."""

    def values(states):
        levels = np.sin(10 * states.sum(axis=1))
        return np.stack([levels, levels + gap], axis=1)

    return values


def study(gap, **options):
    return plan_tiny(["RePR", "no-reh"], "CartPole-v1", teachers={"CartPole-v1": teacher(gap)}, **options)


def targets(planned):
    return {chain.settings.long_term.targets for chain in planned.chains}


def test_the_gap_is_relative_to_the_spread_of_all_values():
    values = torch.tensor([[0.0, 1.0, 4.0], [2.0, 2.5, 2.0], [6.0, 6.0, 0.0]])
    # gaps 3, 0.5 and 0; the median is 0.5
    assert relative_gap(values) == pytest.approx(0.5 / values.std().item())
    assert relative_gap(torch.zeros(5, 1)) == float("inf")


def test_teachers_with_a_small_gap_transfer_policies_with_a_notice():
    planned = study(0.01)
    assert targets(planned) == {"policy"}
    assert [chain.condition.name for chain in planned.chains] == ["RePR", "no-reh"]
    (notice,) = [text for text in planned.notices if "softmax of advantages" in text]
    assert "CartPole-v1 (0.0" in notice
    assert "--long-term.targets values" in notice


def test_the_folder_stays_open_to_studies_without_these_teachers():
    planned, other = study(0.01), plan_tiny(["no-reh"], "CartPole-v1")
    assert planned.header.settings == other.header.settings


def test_other_teachers_and_other_targets_are_left_alone(monkeypatch):
    planned = study(1.0)
    assert targets(planned) == {"advantages"}
    assert planned.notices == []
    for chosen in ("values", "advantages"):
        planned = study(0.01, overrides={"long-term.targets": chosen})
        assert targets(planned) == {chosen}
        assert not any("softmax of advantages" in text for text in planned.notices)
    monkeypatch.setattr(action_gap, "measure_gap", None)  # of images and of policies, nothing is measured
    plan_tiny(["RePR"], "catch", teachers={"catch": "pretrained:arcade-3"})
    logits = teacher(0.01)
    logits.outputs = "logits"
    plan_tiny(["RePR"], "CartPole-v1", teachers={"CartPole-v1": logits})
