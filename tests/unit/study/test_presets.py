"""Which preset a study starts from, and how its budget is scaled."""

import pytest

from reaper.config.overrides import compare_presets
from reaper.config.presets import MODERN, PAPER
from reaper.errors import UserError
from reaper.storage.store import Store
from reaper.study.experiments import plan_experiment
from reaper.study.options import StudyOptions, count_from
from reaper.study.plan import plan

ATARI = "ALE/Breakout-v5,ALE/Boxing-v5"


def test_a_run_on_images_uses_the_modern_preset():
    study = plan(["RePR"], StudyOptions(tasks=ATARI))
    assert (study.config.preset, study.config.settings) == ("modern", MODERN)


def test_an_experiment_uses_the_papers_numbers():
    study = plan_experiment("main", StudyOptions(tasks=ATARI))
    assert (study.config.preset, study.config.settings) == ("paper", PAPER)


def test_small_games_keep_their_preset_in_both():
    assert plan(["RePR"], StudyOptions()).config.preset == "arcade"
    assert plan_experiment("main", StudyOptions()).config.preset == "arcade"


def test_an_output_folder_keeps_its_preset(tmp_path):
    """Its study is continued without naming the preset; another one has to be asked for, and is refused later."""
    options = StudyOptions(tasks=ATARI, out=tmp_path / "run")
    Store.open_for(options.out, plan_experiment("main", options).header)
    assert plan(["RePR"], options).config.preset == "paper"
    assert plan(["RePR"], StudyOptions(tasks=ATARI, out=tmp_path / "run", preset="modern")).config.preset == "modern"


def test_an_output_folder_keeps_the_preset_that_was_asked_for(tmp_path):
    options = StudyOptions(tasks=ATARI, out=tmp_path / "run")
    Store.open_for(options.out, plan(["RePR"], StudyOptions(tasks=ATARI, preset="strong")).header)
    assert plan(["RePR"], options).config.preset == "strong"


def test_agent_steps_scale_every_duration():
    config = plan(["RePR"], StudyOptions(tasks=ATARI, agent_steps="1m")).config
    assert config.settings.short_term.agent_steps == config.settings.long_term.agent_steps == 1_000_000
    assert config.settings.training.exploration_steps == MODERN.training.exploration_steps // 2
    assert config.header.fraction == 0.5
    assert plan(["RePR"], StudyOptions(tasks=ATARI, agent_steps="4m")).config.header.fraction == 2


@pytest.mark.parametrize("fraction", [1, 0.1])
def test_strong_keeps_the_last_long_term_weights_at_any_budget(fraction):
    """One window: windows with more exploration have a lower loss, but not the better agent."""
    settings = plan(["RePR"], StudyOptions(tasks=ATARI, preset="strong", fraction=fraction)).chains[0].settings
    assert settings.long_term.best_window == settings.long_term.agent_steps == 1_000_000 * fraction


@pytest.mark.parametrize(
    ("text", "count"), [("2m", 2_000_000), ("500k", 500_000), ("20000", 20_000), ("1.5M", 1_500_000)]
)
def test_steps_are_read_as_people_write_them(text, count):
    assert count_from(text) == count


@pytest.mark.parametrize("text", ["", "m", "2q", "-1", "0", "nan", "inf", "0.5", "1e99", "2mm"])
def test_other_budgets_are_refused(text):
    with pytest.raises(UserError, match="--agent-steps takes"):
        StudyOptions(agent_steps=text)


def test_one_budget_is_enough():
    with pytest.raises(UserError, match="give one of them"):
        StudyOptions(agent_steps="1m", fraction=0.5)


def test_presets_are_compared_by_what_differs():
    rows = {setting.name: setting.defaults for setting in compare_presets()}
    assert rows["short-term.n-step"] == {"paper": 1, "modern": 2, "strong": 3, "arcade": 1, "vector": 3, "board": 3}
    assert "optimiser.max-grad-norm" not in rows
