"""Sequences: which tasks they consist of, in which order, and by which names."""

from dataclasses import replace

import pytest

from reaper.config.settings import ObservationSettings
from reaper.errors import UserError
from reaper.tasks.arcade import ARCADE
from reaper.tasks.observation import BOARD, ObservationSpec, vector_spec
from reaper.tasks.sequence import SEQUENCES, Sequence, find_sequence, find_task, match_task, seen_as
from reaper.tasks.task import Task


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


def made(name, observation, num_actions=3, **options):
    return Task(name, name.capitalize(), num_actions, ARCADE["catch"].open, observation, **options)


IMAGES, VECTORS = ObservationSpec((1, 16, 16)), vector_spec(4)
BOARDS = ObservationSpec((2, 5, 6), kind=BOARD)


@pytest.mark.parametrize(
    ("observation", "kind", "preset", "paper_preset"),
    [
        (IMAGES, "image", "arcade", "arcade"),
        (None, "image", "modern", "paper"),
        (VECTORS, "vector", "vector", "vector"),
        (BOARDS, "board", "board", "board"),
    ],
)
def test_tasks_decide_the_kind_and_the_preset(observation, kind, preset, paper_preset):
    sequence = Sequence("a", (made("one", observation), made("two", observation)))
    assert (sequence.kind, sequence.preset, sequence.paper_preset) == (kind, preset, paper_preset)


@pytest.mark.parametrize(
    ("emitted", "frame", "seen"),
    [
        (None, IMAGES, True),
        (None, VECTORS, False),
        (IMAGES, IMAGES, True),
        (IMAGES, ObservationSpec((1, 16, 17)), False),
        (IMAGES, VECTORS, False),
        (VECTORS, VECTORS, True),
        (VECTORS, vector_spec(5), True),
        (VECTORS, vector_spec(3), False),
        (VECTORS, IMAGES, False),
        (BOARDS, ObservationSpec((2, 5, 6)), True),
        (BOARDS, ObservationSpec((3, 9, 9)), True),
        (BOARDS, ObservationSpec((1, 9, 9)), False),
        (BOARDS, ObservationSpec((2, 5, 5)), False),
        (BOARDS, VECTORS, False),
    ],
)
def test_what_an_agent_can_be_shown(emitted, frame, seen):
    assert seen_as(emitted, frame) is seen


def test_settings_are_completed_with_the_largest_of_the_tasks():
    vectors = Sequence("a", (made("one", vector_spec(3)), made("two", vector_spec(7))))
    settings = ObservationSettings(frame_stack=2)
    assert vectors.observation(settings).shape == (14,)
    assert vectors.observation(replace(settings, features=9)).shape == (18,)
    with pytest.raises(UserError, match=r"two emits 7 float32 vectors, and .* 6 float32 vectors; .*--observation.feat"):
        vectors.observation(replace(settings, features=6))
    boards = Sequence("a", (made("one", BOARDS), made("two", ObservationSpec((3, 4, 10), kind=BOARD))))
    assert boards.observation(settings).shape == (6, 20, 20)  # ten cells of two pixels
    told = Sequence("a", (made("one", IMAGES), made("two", IMAGES)))
    assert told.observation(replace(settings, frame_size=16, task_id="one-hot")).identity == 2
    assert told.observation(replace(settings, frame_size=16, task_id="one-hot", task_names="a,two,one")).identity == 3


def test_a_task_that_does_not_repeat_itself_is_reported():
    steady = made("steady", IMAGES, is_deterministic=lambda: True)
    random = made("random", IMAGES, is_deterministic=lambda: False)
    notices = Sequence("a", (made("unknown", IMAGES), steady, random)).notices
    assert [notice.split(":")[0] for notice in notices] == ["random is not deterministic under a seed"]


def test_a_task_twice_is_refused_with_the_sequence_that_holds_it():
    with pytest.raises(UserError, match=r"catch occurs twice \(arcade-3 is catch, dodge, shooter\); a task may"):
        find_sequence("arcade-3,catch")
    with pytest.raises(UserError, match=r"pong occurs twice; a task may occur only once"):
        find_sequence("pong,pong")


@pytest.mark.parametrize("name", ["no-such-game", "No-Such-Game-v0"])
def test_an_unknown_task_is_refused(name):
    with pytest.raises(UserError, match=f"unknown task '{name}'"):
        find_task(name)
