"""A long-term memory from elsewhere is checked against its own settings."""

from dataclasses import replace

import pytest
import torch

from reaper.errors import UserError
from reaper.learning.found_memory import check_memory
from reaper.storage.find import RunChoice, find_memory


@pytest.fixture(scope="module")
def found(tiny_run):
    return find_memory(tiny_run, RunChoice(condition="RePR"))


def test_a_memory_that_fits_gives_a_context_for_its_agent(found):
    context = check_memory(found)
    assert context.num_actions == 6
    assert context.observation.shape == (2, 16, 16)


@pytest.mark.parametrize("missing", [{"num_actions": None}, {"num_actions": True}, {"num_actions": 0}, {"settings": 3}])
def test_a_memory_without_settings_or_actions_is_refused(found, missing):
    with pytest.raises(UserError, match="does not state"):
        check_memory(replace(found, spec={**found.spec, **missing}))


def test_weights_that_do_not_fit_are_refused(found):
    with pytest.raises(UserError, match="those of another network"):
        check_memory(replace(found, spec={**found.spec, "num_actions": 7}))
    retained = {name: torch.cat([t, t]) if t.ndim else t for name, t in found.memory.retained.items()}
    with pytest.raises(UserError, match="those of another network: generator"):
        check_memory(replace(found, memory=replace(found.memory, retained=retained)))
