"""As few commands as say the same."""

from reaper.results.commands import merged_commands


def test_seeds_of_the_same_conditions_become_one_command():
    found = merged_commands(
        ["reaper run RePR reh --tasks arcade-6 --seeds 21", "reaper run RePR reh --tasks arcade-6 --seeds 20"]
    )
    assert found == ["reaper run RePR reh --tasks arcade-6 --seeds 20 21"]


def test_conditions_with_the_same_seeds_become_one_command_in_the_order_that_was_given():
    found = merged_commands(
        [
            "reaper run PR --tasks arcade-6 --seeds 20 21",
            "reaper run ewc --tasks arcade-6 --seeds 20 21",
            "reaper run reh PR --tasks arcade-6 --seeds 20",
            "reaper run reh PR --tasks arcade-6 --seeds 21",
        ]
    )
    assert found == ["reaper run reh PR ewc --tasks arcade-6 --seeds 20 21"]


def test_nothing_is_claimed_that_was_not_run():
    apart = ["reaper run RePR --tasks arcade-3 --seeds 0 1", "reaper run reh --tasks arcade-3 --seeds 0"]
    assert merged_commands(apart) == apart
    other_settings = ["reaper run RePR --tasks arcade-3", "reaper run reh --tasks arcade-3 --long-term.alpha 0.5"]
    assert merged_commands(other_settings) == other_settings


def test_seeds_may_stand_anywhere_and_names_may_need_quotes():
    found = merged_commands(
        ["reaper run RePR --seeds 1 --tasks 'my tasks:all'", "reaper run reh --tasks 'my tasks:all' --seeds 1"]
    )
    assert found == ["reaper run RePR reh --tasks 'my tasks:all' --seeds 1"]


def test_other_commands_stay_as_they_are_once_each():
    other = "reaper consolidate a.zip b.zip --tasks arcade-3 --seeds 0"
    assert merged_commands([other, "reaper run RePR", other]) == ["reaper run RePR", other]


def test_no_commands():
    assert merged_commands([]) == []
