"""Settings in files: only what differs from the defaults, and old files keep their meaning."""

import json

import pytest

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.config.settings import Settings
from reaper.config.sparse_json import from_json, to_json
from reaper.errors import UserError
from reaper.generators import generator_for


def test_the_papers_settings_are_an_empty_document():
    assert to_json(PAPER) == {}
    assert from_json({}) == PAPER


def test_only_changed_values_are_written():
    changed = with_overrides(PAPER, {"training.num-envs": 8, "gan.steps": 6, "ewc.ewc-lambda": 300})
    assert to_json(changed) == {"training": {"num_envs": 8}, "methods": {"gan": {"steps": 6}}}


@pytest.mark.parametrize("settings", [PAPER, ARCADE, with_overrides(ARCADE, {"online-ewc.gamma": 0.5})])
def test_settings_survive_a_file(settings):
    assert from_json(json.loads(json.dumps(to_json(settings)))) == settings


def test_values_that_equal_the_default_are_not_written():
    explicit = Settings(methods={"gan": {"steps": 200_000}, "ewc": {"ewc_lambda": 1.0}})
    assert to_json(explicit) == {"methods": {"ewc": {"ewc_lambda": 1.0}}}


def test_a_whole_number_is_a_float_where_the_setting_is_one():
    assert to_json(from_json({"methods": {"ewc": {"ewc_lambda": 50}}})) == {"methods": {"ewc": {"ewc_lambda": 50.0}}}


def test_values_of_a_method_that_is_not_installed_are_kept():
    document = {"methods": {"gan": {"steps": 6}, "somebody-elses": {"strength": 0.3}}}
    settings = from_json(document)
    assert generator_for(settings).steps == 6
    assert to_json(settings) == document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"warmth": {"degrees": 3}}, "'warmth' is not known to this one"),
        ({"training": {"warmth": 3}}, "training.warmth is not known to this one"),
        ({"methods": {"gan": {"warmth": 3}}}, "gan.warmth is not known to this one"),
        ({"training": {"num_envs": "many"}}, "training.num_envs is 'many'"),
        ({"methods": {"gan": {"steps": 2.5}}}, "gan.steps is '2.5'"),
        ({"training": 3}, "training is '3'"),
        ({"methods": [1]}, "methods is '[1]'"),
    ],
)
def test_what_this_version_does_not_know_is_one_line(document, message):
    with pytest.raises(UserError) as caught:
        from_json(document)
    assert str(caught.value) == f"these settings are from another version: {message}"
