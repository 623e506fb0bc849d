"""Finding one long-term memory, wherever it is."""

import pytest
from conftest import run_tiny

from reaper.errors import UserError
from reaper.storage.find import RunChoice, choose_memory, find_memory
from reaper.storage.pack import export_weights
from reaper.storage.store import Store


def test_the_same_memory_is_found_in_every_form(tiny_run, tmp_path):
    store, file = Store.open(tiny_run), tmp_path / "memory.reaper"
    record, digest = choose_memory(store, RunChoice("RePR"))
    export_weights(tiny_run, file, RunChoice("RePR"))
    places = (find_memory(tiny_run, RunChoice("RePR")), find_memory(store.path_of(digest)), find_memory(file))
    for found in places:
        assert found.memory.tasks == ("catch", "dodge", "frog")
        assert found.spec == store.stage(digest).spec
        assert found.sequence == record.sequence


def test_an_earlier_memory_is_chosen_by_its_number_of_tasks(tiny_run):
    assert find_memory(tiny_run, RunChoice("RePR"), after_task=2).memory.tasks == ("catch", "dodge")
    for number in (0, 4):
        with pytest.raises(UserError, match="must be 1 to 3"):
            find_memory(tiny_run, RunChoice("RePR"), after_task=number)


def test_an_open_choice_is_refused_with_the_names(tiny_run):
    with pytest.raises(UserError, match=r"several runs.*RePR--.*no-reh--"):
        find_memory(tiny_run)
    with pytest.raises(UserError, match=r"no run with condition PR, seed 3; it has RePR--"):
        find_memory(tiny_run, RunChoice("PR", 3))


def test_one_condition_with_several_seeds_is_no_open_choice(two_seeds):
    assert find_memory(two_seeds, RunChoice("DGDMN")).memory.tasks == ("catch",)
    with pytest.raises(UserError, match="several runs"):
        find_memory(two_seeds)


def test_a_stage_without_a_memory_is_refused(tmp_path):
    store = run_tiny(tmp_path / "out", ["single"], "catch")
    with pytest.raises(UserError, match="holds no long-term memory but the result of 'learn catch"):
        find_memory(store.path_of(store.runs()[0].teachers[0]))
