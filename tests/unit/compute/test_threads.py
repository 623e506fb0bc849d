"""Small batches run in one thread, whatever the process uses otherwise."""

import pytest
import torch

from reaper.compute.threads import MAX_STATES_IN_ONE_THREAD, threads_for


@pytest.fixture
def three_threads():
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(1)  # as in all other tests


def test_few_states_use_one_thread_and_many_use_all(three_threads):
    used = {}
    for num_states in (1, MAX_STATES_IN_ONE_THREAD, MAX_STATES_IN_ONE_THREAD + 1):
        with threads_for(num_states):
            used[num_states] = torch.get_num_threads()
        assert torch.get_num_threads() == 3
    assert used == {1: 1, 4: 1, 5: 3}


def test_threads_are_restored_after_an_error(three_threads):
    with pytest.raises(ZeroDivisionError), threads_for(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3
