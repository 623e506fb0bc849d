"""The tables that convert version 0.1; tests/samples converts whole folders."""

import pytest

from reaper.config.overrides import find_setting, setting_names
from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json, to_json
from reaper.storage.format2 import names
from reaper.storage.format2.chains import OldStage
from reaper.storage.format2.checkpoints import convert_paths
from reaper.storage.format2.records import convert_command, convert_condition, convert_run
from reaper.storage.format2.specs import convert_retention, convert_settings, convert_spec, convert_title
from reaper.storage.manifests import SPEC_FORMAT
from reaper.storage.records import ContinuedFrom, StageEntry


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
        ("reaper run x --short-term.target-every 9", "reaper run x --short-term.target-update-interval 9"),
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


def memory_spec(tasks, retention, teaching="distil", **groups):
    axes = {"teaching": teaching, "retention": retention, "knowledge": "Q-values"}
    return {
        "kind": "consolidate",
        "format": 2,
        "tasks": tasks,
        "actions": 6,
        "axes": axes,
        "parents": {"player": "a", "memory": "b"},
        "settings": groups,
    }


ALPHA = {"long_term": {"alpha": 0.2, "observed_frames": 9}}


@pytest.mark.parametrize(
    ("tasks", "retention", "groups", "settings"),
    [
        # What weighs earlier tasks has no effect on the first memory.
        (["a"], "pseudo-rehearsal", ALPHA, {"long_term": {"agent_steps": 9}}),
        (["a", "b"], "pseudo-rehearsal", ALPHA, {"long_term": {"alpha": 0.2, "agent_steps": 9}}),
        (["a"], "ewc", {"ewc": {"strength": 3.0}}, {}),
        (["a", "b"], "ewc", {"ewc": {"strength": 3.0}}, {"methods": {"ewc": {"ewc_lambda": 3.0}}}),
        (["a", "b"], "online-ewc", {"ewc": {"strength": 3.0}}, {}),  # of another method
        (["a"], "pseudo-rehearsal", {"generator": {"steps": 7}}, {"methods": {"gan": {"steps": 7}}}),
        (["a"], "ewc", {"generator": {"steps": 7}}, {}),  # without a generator
    ],
)
def test_a_memory_depends_only_on_settings_that_matter_to_it(tasks, retention, groups, settings):
    converted = convert_spec(memory_spec(tasks, {"name": retention}, **groups), lambda digest: f"new {digest}")
    assert converted["settings"] == settings
    assert converted["parents"] == {"collector": "new a", "memory": "new b"}
    assert (converted["num_actions"], converted["format"]) == (6, SPEC_FORMAT)
    assert converted["axes"] == {"objective": "distillation", "retention": retention, "knowledge": "Q-values"}


def test_memories_from_generated_states_depend_on_the_generator_and_plugins_keep_their_fields():
    generator = {"generator": {"steps": 7}}
    spec = memory_spec(["a"], {"name": "stay-close", "strength": 0.5}, teaching="distil dreams", **generator)
    converted = convert_spec(spec, lambda digest: digest)
    assert converted["settings"] == {"methods": {"gan": {"steps": 7}, "stay-close": {"strength": 0.5}}}
    assert converted["axes"]["objective"] == "generated distillation"


def test_other_stages_keep_their_groups():
    spec = {"kind": "fisher", "parents": {}, "settings": {"ewc": {"fisher_batches": 5, "strength": 3.0}}}
    assert convert_spec(spec, str)["settings"] == {"fisher": {"batches": 5}}
    spec = {"kind": "student", "parents": {}, "items": "dreamt"}
    assert convert_spec(spec, str) == {"kind": "student", "parents": {}, "items": "generated"}


def test_titles_have_new_words():
    assert convert_title("dream of catch") == "train generator on catch"
    assert convert_title("evaluate random play on catch") == "evaluate random actions on catch"


OLD_RUN = {
    "name": "RePR--two--seed-0",
    "condition": {
        "name": "RePR", "teaching": "distil", "retention": {"name": "pseudo-rehearsal"}, "knowledge": "Q-values",
        "scale": "main", "reverse": False, "overrides": {}, "about": "x",
    },
    "sequence": "two", "tasks": ["a", "b"], "titles": ["A", "B"], "actions": 6, "seed": 0, "settings": {},
    "teachers": ["t0", "t1"], "generators": [], "memories": ["m0", "m1"], "evaluations": ["e0", "e1"],
    "singles": ["s0", "s1"], "random": "r",
}  # fmt: skip


def test_a_run_lists_its_own_stages():
    stages = {
        name: OldStage({"kind": "x", "parents": {"player": "t0"}}, f"dream of {name}") for name in ("t0", "m1", "r")
    }
    run = convert_run(OLD_RUN, stages, str.upper)
    assert (run.teachers, run.memories, run.random, run.num_actions, run.command) == (
        ("T0", "T1"), ("M0", "M1"), "R", 6, "",
    )  # fmt: skip
    assert list(run.stages) == ["T0", "M1", "R"]
    assert run.stages["M1"] == StageEntry("train generator on m1", ("T0",))
    assert run.continued is None
    assert convert_run({**OLD_RUN, "random": None}, stages, str.upper).random is None


def test_stages_that_made_a_memory_elsewhere_are_not_a_runs_own():
    every = [digest for value in OLD_RUN.values() if isinstance(value, list) for digest in value if len(digest) == 2]
    stages = {name: OldStage({"kind": "x", "parents": {}}, name) for name in (*every, "r")}
    assert list(convert_run(OLD_RUN, stages, str).stages) == [*every, "r"]
    continued = {**OLD_RUN, "continued": {"from": "x", "contents": "y", "tasks": 1}}
    run = convert_run(continued, stages, str)
    assert list(run.stages) == ["t1", "m0", "m1", "e0", "e1", "s1", "r"]
    assert run.continued == ContinuedFrom("x", "y", 1)
