"""Sequences: which tasks they consist of, in which order, and by which names."""

import pytest

from reaper.errors import UserError
from reaper.tasks.sequence import SEQUENCES, Sequence, find_sequence, find_task, match_task


def test_the_named_sequences_are_the_papers_and_ours():
    three, six = ["RoadRunner", "Boxing", "Jamesbond"], ["Pong", "Atlantis", "Qbert"]
    assert SEQUENCES["arcade-3"] == ("catch", "dodge", "shooter")
    assert SEQUENCES["arcade-6"] == ("catch", "dodge", "shooter", "pong", "frog", "chase")
    later = ("bricks", "snake", "flyer", "stacker", "lift", "sorter")
    assert SEQUENCES["arcade-12"] == (*SEQUENCES["arcade-6"], *later)
    assert SEQUENCES["atari-3"] == tuple(f"ALE/{name}-v5" for name in three)
    assert SEQUENCES["atari-3-rev"] == tuple(f"ALE/{name}-v5" for name in three[::-1])
    assert SEQUENCES["atari-6"] == tuple(f"ALE/{name}-v5" for name in three + six)


def test_a_sequence_is_reversed_and_back():
    sequence = find_sequence("catch,dodge,frog")
    assert sequence.reversed().names == ("frog", "dodge", "catch")
    assert sequence.reversed().name == "catch,dodge,frog-rev"
    assert sequence.reversed().reversed() == sequence


def test_names_of_files_have_only_letters_and_digits():
    assert Sequence("ALE/Pong-v5, catch", (find_task("catch"),)).file_name == "ALE-Pong-v5-catch"


def test_the_largest_action_set_counts():
    tasks = (find_task("catch"),)
    assert Sequence("a", tasks).num_actions == 6
    assert Sequence("a", tasks, min_actions=18).num_actions == 18
    assert Sequence("a", tasks, min_actions=3).num_actions == 6
    assert Sequence("a", tasks).notices == []


@pytest.mark.parametrize(
    ("text", "reason"), [(" , ", "needs sequences or task names"), ("catch,dodge,catch", "only once")]
)
def test_what_is_no_sequence_is_refused(text, reason):
    with pytest.raises(UserError, match=reason):
        find_sequence(text)


def test_spaces_between_names_do_not_matter():
    assert find_sequence(" catch , dodge ,").names == ("catch", "dodge")


def test_a_name_with_a_colon_has_to_be_given_in_full():
    assert match_task(("module:Game-v0",), "module:Game-v0") == "module:Game-v0"
    with pytest.raises(UserError, match="unknown task"):
        match_task(("module:Game-v0",), "module:Game")


def test_a_sequence_stands_for_its_tasks_among_others():
    combined = find_sequence("arcade-3, pong")
    assert combined.names == ("catch", "dodge", "shooter", "pong")
    assert combined.name == "catch,dodge,shooter,pong"  # another spelling of the same tasks is the same run
    assert find_sequence("pong,arcade-3").names == ("pong", "catch", "dodge", "shooter")
    assert find_sequence("arcade-3").name == "arcade-3"
    assert find_sequence("catch, dodge").name == "catch, dodge"  # as in the records of earlier runs


def test_a_sequence_is_no_task():
    with pytest.raises(UserError, match="arcade-3 is not a task but a sequence of tasks: catch, dodge, shooter"):
        find_task("arcade-3")
