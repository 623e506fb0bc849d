"""How many threads PyTorch uses on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# States up to which a forward pass runs in one thread. At best a second thread makes no difference to so few (0.5 ms
# for one state at Atari size, 1.3 ms for four). On a busy machine the first thread waits until the second gets a core:
# 20 instead of 1.7 ms for one state, 58 instead of 3.5 ms for four. Eight states gain from it: 1.7 instead of 2.4 ms.
MAX_STATES_IN_ONE_THREAD = 4


@contextmanager
def threads_for(num_states: int) -> Iterator[None]:
    """Runs a forward pass of so many states in one thread if they are few."""
    before = torch.get_num_threads()
    if num_states > MAX_STATES_IN_ONE_THREAD or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
