"""As few commands as say the same."""

from reaper.results.commands import merged_commands


def test_commands_that_differ_in_their_seeds_become_one():
    assert merged_commands(["reaper run RePR --seeds 2", "reaper run RePR --seeds 0 1", "reaper run reh"]) == [
        "reaper run RePR --seeds 0 1 2",
        "reaper run reh --seeds 0",
    ]


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
    other_seeds = ["reaper run RePR --tasks arcade-3 --seeds 0 1", "reaper run reh --tasks arcade-3 --seeds 0"]
    assert merged_commands(other_seeds) == other_seeds
    other_settings = ["reaper run RePR --seeds 0", "reaper run reh --long-term.alpha 0.5 --seeds 0"]
    assert merged_commands(other_settings) == other_settings


def test_seeds_may_stand_anywhere_and_names_may_need_quotes():
    found = merged_commands(["reaper run RePR --seeds 1 --tasks 'a b:c'", "reaper run reh --tasks 'a b:c' --seeds 1"])
    assert found == ["reaper run RePR reh --tasks 'a b:c' --seeds 1"]


def test_of_other_commands_only_seeds_are_merged():
    other = "reaper consolidate a.zip b.zip --tasks arcade-3"
    assert merged_commands([other, "reaper experiment main --seeds 3", other]) == [
        f"{other} --seeds 0",
        "reaper experiment main --seeds 3",
    ]


def test_what_is_no_command_line_stays_as_it_is():
    broken = ["reaper run RePR --tasks 'open", "reaper run RePR --seeds many"]
    assert merged_commands([*broken, "reaper run RePR --seeds 1", *broken]) == ["reaper run RePR --seeds 1", *broken]


def test_no_commands():
    assert merged_commands([]) == []
