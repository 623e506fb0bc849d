"""The tables that convert version 0.1; tests/samples converts whole folders."""

import pytest

from reaper.config.overrides import find_setting, setting_names
from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json, to_json
from reaper.storage.format2 import names
from reaper.storage.format2.checkpoints import convert_paths
from reaper.storage.format2.records import convert_command, convert_condition
from reaper.storage.format2.specs import convert_retention, convert_settings


def test_every_setting_of_version_0_1_is_a_setting_now():
    new = {now.replace("_", "-") for _, renamed in names.SETTINGS.values() for now in renamed}
    assert new <= set(setting_names())


def test_the_defaults_of_version_0_1_are_the_defaults_now():
    """So that leaving them out of a spec means what it meant."""
    groups: dict = {}
    for name, (default, _) in names.SETTINGS.items():
        group, _, field = name.partition(".")
        groups.setdefault(group, {})[field] = default
    assert convert_settings(groups) == {} == to_json(Settings())


@pytest.mark.parametrize("name", names.SETTINGS)
def test_a_default_of_version_0_1_is_that_of_the_setting_now(name):
    default, renamed = names.SETTINGS[name]
    for now in renamed:
        assert find_setting(now).value_in(Settings()) == default


def test_settings_move_to_the_methods_that_use_them():
    old = {"rehearsal": {"items": 5, "limited_items": 6}, "generator": {"latents": 7, "pseudo_items": 8}}
    new = convert_settings(old)
    assert new == {
        "generator": {"pseudo_items": 8},
        "methods": {
            "rehearsal": {"capacity": 5},
            "limited-rehearsal": {"capacity": 6},
            "compressed-rehearsal": {"capacity": 6, "max_items": 5},
            "gan": {"latent_size": 7},
        },
    }
    assert to_json(from_json(new)) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"name": "nothing"}, {"name": "none"}),
        ({"name": "rehearsal", "limited": False}, {"name": "rehearsal"}),
        ({"name": "rehearsal", "limited": True}, {"name": "limited-rehearsal"}),
        ({"name": "compressed rehearsal", "limited": True}, {"name": "compressed-rehearsal"}),
        ({"name": "untrained dreams"}, {"name": "untrained-generator"}),
        ({"name": "stay-close", "strength": 0.5}, {"name": "stay-close", "strength": 0.5}),  # a plugin's
    ],
)
def test_retention_methods_have_new_names(old, new):
    assert convert_retention(old) == new


def test_a_condition_without_a_sweep_is_converted():
    """The first records of version 0.1 had no `base`."""
    old = {"name": "RePR", "teaching": "distil", "retention": {"name": "pseudo-rehearsal"}, "knowledge": "Q-values"}
    new = convert_condition({**old, "scale": "main", "reverse": False, "overrides": {"ewc.strength": 3}, "about": "x"})
    assert (new["objective"], new["variant"], new["base"]) == ("distillation", "main", "")
    assert new["overrides"] == {"ewc.ewc-lambda": 3}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reaper run RePR --tasks 'a, b' --scale paper", "reaper run RePR --tasks 'a, b' --preset paper"),
        ("reaper run x --play.games 4 --seeds 0 1", "reaper run x --training.num-envs 4 --seeds 0 1"),
        (
            "reaper run x --rehearsal.items 5 --fraction 0.5",
            "reaper run x --rehearsal.capacity 5 --compressed-rehearsal.max-items 5 --fraction 0.5",
        ),
        ("reaper run x --mine.own 5", "reaper run x --mine.own 5"),
        ("reaper 'unfinished", "reaper 'unfinished"),
        ("", ""),
    ],
)
def test_commands_use_the_new_flags(old, new):
    assert convert_command(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("practice/observed_frames", "trainer/agent_steps"),
        ("practice/seam", "trainer/boundary"),
        ("practice/tested", "trainer/tasks_done"),
        ("practice/weights/values", "trainer/weights/values"),
        ("practice/actor/values", "trainer/acting_weights/values"),
        ("practice/player/log", "trainer/actor/action_log"),
        ("practice/player/drawn/actions", "trainer/actor/random_actions/actions"),
        ("practice/player/running", "trainer/actor/returns"),
        ("practice/replay/cut_off", "trainer/replay/truncated"),
        ("practice/pending/0/observed_frames", "trainer/pending/0/agent_steps"),
        ("practice/pending/0/weights/values.bias", "trainer/pending/0/weights/values.bias"),
        ("gathering/frame", "collection/agent_steps"),
        ("gathering/player/seed", "collection/actor/seed"),
        ("gathering/replay/cut_off", "collection/replay/truncated"),
        ("adversarial/pairs_done", "generator/calls_done"),
        ("lesson/batches/stream", "objective/batches/stream"),
        ("lesson/target/values", "objective/target/values"),
        ("recall/stream", "recall/stream"),
        ("q_learning/target/values", "q_learning/target/values"),
        ("fisher/total/values.bias", "fisher/total/values.bias"),
        ("drawing/batches/stream", "sampler/batches/stream"),
    ],
)
def test_parts_of_a_checkpoint_have_new_names(old, new):
    assert convert_paths({old: 1}) == {new: 1}


def test_rows_in_a_checkpoint_have_new_keys():
    rows = [{"task": "catch", "observed_frames": 120, "scores": [1.0]}]
    expected = [{"task": "catch", "agent_steps": 120, "scores": [1.0]}]
    assert convert_paths({"practice/rows/rows": rows, "rows/rows": rows}) == {
        "trainer/rows/rows": expected,
        "rows/rows": expected,
    }
