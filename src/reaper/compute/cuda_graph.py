"""A GPU's work, recorded once as a CUDA graph and then replayed: the host asks for a thousand small kernels at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from reaper.state import Parts, clone_state

WARM_UPS = 2  # kernels are built and chosen in the first rounds


def capture_graph(
    work: Callable[[], object], changes: Parts | None = None, stream: torch.cuda.Stream | None = None
) -> Callable[[], None]:
    """`work` as one graph, with the priority of the stream if there is one. What it `changes` (its random streams among
    them) is as before when this returns, although the work is run to warm up; without `changes` it is only recorded,
    not run."""
    before = clone_state(changes.state()) if changes is not None else {}
    if changes is not None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        changes.restore(before)
    graph = torch.cuda.CUDAGraph()
    for random in changes.rngs() if changes is not None else ():
        graph.register_generator_state(random.graphsafe_get_state())  # a plain generator with the same state
    with torch.cuda.graph(graph, stream=stream):
        work()
    if changes is not None:
        changes.restore(before)
    return graph.replay
